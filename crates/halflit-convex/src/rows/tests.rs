use super::*;

/// Three rows with every kind of entry: zero, negative, the largest magnitude.
fn sample() -> [[i16; 5]; 3] {
    [[0, 16384, -32767, 32767, 1], [0; 5], [-1, 0, 0, 7, 0]]
}

fn both() -> [Rows; 2] {
    [DenseRows::from_rows(5, &sample()).unwrap().into(), SparseRows::from_rows(5, &sample()).unwrap().into()]
}

#[test]
fn both_storages_hold_the_same_numbers() {
    for rows in both() {
        assert_eq!((rows.len(), rows.width()), (3, 5));
        for (index, row) in sample().iter().enumerate() {
            assert_eq!(rows.dense_row(index).unwrap(), row);
        }
        let norm = (1u64 << 28) + 2 * 32767 * 32767 + 1;
        assert_eq!(rows.squared_norms(), [norm, 0, 50]);
        assert_eq!(rows.max_squared_norm(), norm);
        assert!(rows.memory_bytes() > 0);
    }
}

#[test]
fn values_in_row_order_are_rows() {
    let values: Vec<i16> = sample().concat();
    assert_eq!(DenseRows::from_values(5, values).unwrap(), DenseRows::from_rows(5, &sample()).unwrap());
    assert!(matches!(DenseRows::from_values(5, vec![1; 7]), Err(RowsError::Width { row: 1, found: 2, .. })));
    assert!(matches!(DenseRows::from_values(0, vec![1]), Err(RowsError::Width { .. })));
}

#[test]
fn selecting_keeps_order_and_repeats() {
    for rows in both() {
        let chosen = rows.select(&[2, 0, 2]).unwrap();
        assert_eq!(chosen.dense_row(0).unwrap(), sample()[2]);
        assert_eq!(chosen.dense_row(1).unwrap(), sample()[0]);
        assert_eq!(chosen.squared_norms()[2], 50);
        assert_eq!(rows.select(&[3]), Err(RowsError::NoSuchRow { row: 3, len: 3 }));
    }
}

#[test]
fn joining_works_across_storages() {
    for first in both() {
        for second in both() {
            let joined = first.concat(&second).unwrap();
            assert_eq!(joined.len(), 6);
            assert_eq!(joined.dense_row(5).unwrap(), sample()[2]);
            assert_eq!(joined.squared_norms()[3], first.squared_norms()[0]);
        }
    }
    let narrow: Rows = DenseRows::from_rows(1, &[[1]]).unwrap().into();
    assert!(matches!(both()[0].concat(&narrow), Err(RowsError::Width { .. })));
}

#[test]
fn what_is_not_on_the_lattice_is_refused() {
    let mut dense = DenseRows::new(2).unwrap();
    assert_eq!(dense.push_row(&[0, i16::MIN]), Err(RowsError::Value { row: 0, column: 1, value: i16::MIN }));
    assert_eq!(dense.push_row(&[0]), Err(RowsError::Width { row: 0, found: 1, expected: 2 }));
    assert!(dense.is_empty());
    let mut sparse = SparseRows::new(2).unwrap();
    assert!(matches!(sparse.push_row(&[0], &[i16::MIN]), Err(RowsError::Value { .. })));
    assert!(matches!(sparse.push_row(&[1, 0], &[1, 1]), Err(RowsError::Column { column: 0, .. })));
    assert!(matches!(sparse.push_row(&[1, 1], &[1, 1]), Err(RowsError::Column { column: 1, .. })));
    assert!(matches!(sparse.push_row(&[2], &[1]), Err(RowsError::Column { column: 2, .. })));
    assert!(matches!(sparse.push_row(&[0], &[]), Err(RowsError::Width { .. })));
    assert!(sparse.is_empty());
    assert!(matches!(DenseRows::new(1 << 32), Err(RowsError::TooWide { .. })));
}

#[test]
fn the_tail_stays_zero() {
    let mut dense = DenseRows::new(3).unwrap();
    for _ in 0..5 {
        dense.push_row(&[9, 9, 9]).unwrap();
        let values = dense.padded_values();
        assert_eq!(values.len(), dense.len() * 3 + TAIL);
        assert!(values[dense.len() * 3..].iter().all(|&value| value == 0));
    }
}
