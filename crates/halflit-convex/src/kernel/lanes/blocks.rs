//! Blocks of dense rows, as the primitives see them.

use super::super::block::BLOCK_ROWS;
use super::super::weights::LANES;

/// Which rows of the next block are asked for while a block is scored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// None.
    Nothing,
    /// Half of them; the others while sums are made.
    Half,
    /// All of them: for rows that are only scored.
    All,
}

impl Ahead {
    /// How many while four rows are scored.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of_four(self) -> usize {
        match self {
            Ahead::Nothing => 0,
            Ahead::Half => 2,
            Ahead::All => 4,
        }
    }
}

/// Up to [`BLOCK_ROWS`] dense rows.
pub(crate) trait DenseBlock {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Number of columns.
    fn width(&self) -> usize;

    /// Calls `work` with the rows as a panel, for levels without code of their own.
    fn as_panel<T>(&self, work: impl FnOnce(&Panel<'_>) -> T) -> T;

    /// Where the rows are, after checking that every row can be read in whole vectors.
    #[cfg(target_arch = "x86_64")]
    fn places(&self) -> impl Places;
}

/// Where a block's rows start.
///
/// # Safety
///
/// `width` numbers, filled up to whole vectors of [`LANES`], can be read at the start of every row below [`BLOCK_ROWS`].
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe trait Places {
    /// Whether the rows ahead follow one another.
    const ONE_AFTER_ANOTHER: bool;

    /// The start of a row; rows that are absent start where another one does.
    fn row(&self, row: usize) -> *const i16;

    /// The starts of four rows.
    #[inline(always)]
    fn four(&self, first: usize) -> [*const i16; 4] {
        std::array::from_fn(|row| self.row(first.wrapping_add(row)))
    }

    /// Where the row is that will be read after this one, if it is worth asking for: nothing is read there yet.
    fn ahead(&self, row: usize) -> *const i16;

    /// Which of them are worth it.
    fn asked(&self) -> Ahead;
}

/// Rows that may lie anywhere.
pub(crate) struct Panel<'a> {
    /// Row-major values, with a tail that whole vectors may run into.
    pub(crate) values: &'a [i16],
    /// Where the rows start: at most a block of them.
    pub(crate) offsets: &'a [usize],
    /// Where the rows of the next block start: they travel while this one is computed.
    pub(crate) ahead: &'a [usize],
    /// Number of columns.
    pub(crate) width: usize,
}

impl DenseBlock for Panel<'_> {
    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn width(&self) -> usize {
        self.width
    }

    fn as_panel<T>(&self, work: impl FnOnce(&Panel<'_>) -> T) -> T {
        work(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn places(&self) -> impl Places {
        let asked = if self.ahead.is_empty() { Ahead::Nothing } else { Ahead::Half };
        PanelPlaces { starts: self.starts(), ahead: self.ahead(), asked }
    }
}

#[cfg(target_arch = "x86_64")]
struct PanelPlaces {
    starts: [*const i16; BLOCK_ROWS],
    ahead: [*const i16; BLOCK_ROWS],
    asked: Ahead,
}

// SAFETY: `Panel::starts` checks it.
#[cfg(target_arch = "x86_64")]
unsafe impl Places for PanelPlaces {
    const ONE_AFTER_ANOTHER: bool = false;

    #[inline(always)]
    fn row(&self, row: usize) -> *const i16 {
        self.starts[row]
    }

    #[inline(always)]
    fn ahead(&self, row: usize) -> *const i16 {
        self.ahead[row]
    }

    #[inline(always)]
    fn asked(&self) -> Ahead {
        self.asked
    }
}

#[cfg(target_arch = "x86_64")]
impl Panel<'_> {
    /// The rows as pointers, after checking that every row can be read in whole vectors; the last one is repeated.
    #[inline(always)]
    pub(super) fn starts(&self) -> [*const i16; BLOCK_ROWS] {
        let last = self.offsets.iter().fold(0, |last, &offset| if offset > last { offset } else { last });
        let extent = self.width.next_multiple_of(LANES);
        assert!(!self.offsets.is_empty() && self.offsets.len() <= BLOCK_ROWS);
        assert!(last <= self.values.len() && self.values.len() - last >= extent);
        let base = self.values.as_ptr();
        let mut starts = [base.wrapping_add(self.offsets[self.offsets.len() - 1]); BLOCK_ROWS];
        for (start, &offset) in starts.iter_mut().zip(self.offsets) {
            *start = base.wrapping_add(offset);
        }
        starts
    }

    /// The rows of the next block as pointers that are not read from; absent ones point to the beginning.
    #[inline(always)]
    pub(super) fn ahead(&self) -> [*const i16; BLOCK_ROWS] {
        let base = self.values.as_ptr();
        let mut ahead = [base; BLOCK_ROWS];
        for (pointer, &offset) in ahead.iter_mut().zip(self.ahead) {
            *pointer = base.wrapping_add(offset);
        }
        ahead
    }
}

/// A whole block of rows that follow one another: no table of addresses.
pub(crate) struct Run<'a> {
    /// Row-major values, with a tail that whole vectors may run into.
    values: &'a [i16],
    /// Number of columns.
    width: usize,
    /// Which of the rows after these are asked for.
    asked: Ahead,
}

impl<'a> Run<'a> {
    /// The first [`BLOCK_ROWS`] rows of `values`. Panics if they cannot be read in whole vectors.
    #[inline(always)]
    pub(crate) fn new(values: &'a [i16], width: usize) -> Self {
        assert!(values.len() >= (BLOCK_ROWS - 1) * width + width.next_multiple_of(LANES));
        Run { values, width, asked: Ahead::Nothing }
    }

    /// The same rows; meanwhile the next block's are asked for.
    #[inline(always)]
    pub(crate) fn asking(self, asked: Ahead) -> Self {
        Run { asked, ..self }
    }
}

impl DenseBlock for Run<'_> {
    fn len(&self) -> usize {
        BLOCK_ROWS
    }

    fn width(&self) -> usize {
        self.width
    }

    fn as_panel<T>(&self, work: impl FnOnce(&Panel<'_>) -> T) -> T {
        let mut offsets = [0; 2 * BLOCK_ROWS];
        for (row, offset) in offsets.iter_mut().enumerate() {
            *offset = row * self.width;
        }
        let (offsets, next) = offsets.split_at(BLOCK_ROWS);
        let (values, width, ahead) =
            (self.values, self.width, if self.asked == Ahead::Nothing { &[] } else { next });
        work(&Panel { values, offsets, ahead, width })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn places(&self) -> impl Places {
        RunPlaces { start: self.values.as_ptr(), width: self.width, asked: self.asked }
    }
}

#[cfg(target_arch = "x86_64")]
struct RunPlaces {
    start: *const i16,
    width: usize,
    asked: Ahead,
}

// SAFETY: `Run::new` checks it.
#[cfg(target_arch = "x86_64")]
unsafe impl Places for RunPlaces {
    const ONE_AFTER_ANOTHER: bool = true;

    #[inline(always)]
    fn row(&self, row: usize) -> *const i16 {
        self.start.wrapping_add(row.wrapping_mul(self.width))
    }

    #[inline(always)]
    fn ahead(&self, row: usize) -> *const i16 {
        self.row(row.wrapping_add(BLOCK_ROWS))
    }

    #[inline(always)]
    fn asked(&self) -> Ahead {
        self.asked
    }
}
