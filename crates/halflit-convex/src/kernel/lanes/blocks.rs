//! Blocks of dense rows, as the primitives see them.

use super::super::block::BLOCK_ROWS;
use super::super::weights::LANES;
use super::Upcoming;

/// Up to [`BLOCK_ROWS`] dense rows.
pub(crate) trait DenseBlock {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Number of columns.
    fn width(&self) -> usize;

    /// No feature is larger in size.
    fn largest(&self) -> i16;

    /// What to ask for meanwhile.
    fn upcoming(&self) -> &Upcoming;

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
    /// The start of a row; rows that are absent start where another one does.
    fn row(&self, row: usize) -> *const i16;
}

/// Rows that may lie anywhere.
pub(crate) struct Panel<'a> {
    /// Row-major values, with a tail that whole vectors may run into.
    pub(crate) values: &'a [i16],
    /// Where the rows start: at most a block of them.
    pub(crate) offsets: &'a [usize],
    /// Number of columns.
    pub(crate) width: usize,
    /// No feature of these rows is larger in size.
    pub(crate) largest: i16,
    /// What to ask for meanwhile.
    pub(crate) upcoming: &'a Upcoming,
}

impl DenseBlock for Panel<'_> {
    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn width(&self) -> usize {
        self.width
    }

    fn largest(&self) -> i16 {
        self.largest
    }

    fn upcoming(&self) -> &Upcoming {
        self.upcoming
    }

    fn as_panel<T>(&self, work: impl FnOnce(&Panel<'_>) -> T) -> T {
        work(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn places(&self) -> impl Places {
        PanelPlaces(self.starts())
    }
}

#[cfg(target_arch = "x86_64")]
struct PanelPlaces([*const i16; BLOCK_ROWS]);

// SAFETY: `Panel::starts` checks it.
#[cfg(target_arch = "x86_64")]
unsafe impl Places for PanelPlaces {
    #[inline(always)]
    fn row(&self, row: usize) -> *const i16 {
        self.0[row]
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
}

/// A whole block of rows that follow one another: no table of addresses.
pub(crate) struct Run<'a> {
    /// Row-major values, with a tail that whole vectors may run into.
    values: &'a [i16],
    /// Number of columns.
    width: usize,
    /// No feature of these rows is larger in size.
    largest: i16,
    /// What to ask for meanwhile.
    upcoming: &'a Upcoming,
}

impl<'a> Run<'a> {
    /// The first [`BLOCK_ROWS`] rows of `values`, none of whose features is larger in size than `largest`. Panics if they cannot be
    /// read in whole vectors.
    #[inline(always)]
    pub(crate) fn new(values: &'a [i16], width: usize, largest: i16, upcoming: &'a Upcoming) -> Self {
        assert!(values.len() >= (BLOCK_ROWS - 1) * width + width.next_multiple_of(LANES));
        Run { values, width, largest, upcoming }
    }
}

impl DenseBlock for Run<'_> {
    fn len(&self) -> usize {
        BLOCK_ROWS
    }

    fn width(&self) -> usize {
        self.width
    }

    fn largest(&self) -> i16 {
        self.largest
    }

    fn upcoming(&self) -> &Upcoming {
        self.upcoming
    }

    fn as_panel<T>(&self, work: impl FnOnce(&Panel<'_>) -> T) -> T {
        let offsets: [usize; BLOCK_ROWS] = std::array::from_fn(|row| row * self.width);
        let Run { values, width, largest, upcoming } = *self;
        work(&Panel { values, offsets: &offsets, width, largest, upcoming })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn places(&self) -> impl Places {
        RunPlaces { start: self.values.as_ptr(), width: self.width }
    }
}

#[cfg(target_arch = "x86_64")]
struct RunPlaces {
    start: *const i16,
    width: usize,
}

// SAFETY: `Run::new` checks it.
#[cfg(target_arch = "x86_64")]
unsafe impl Places for RunPlaces {
    #[inline(always)]
    fn row(&self, row: usize) -> *const i16 {
        self.start.wrapping_add(row.wrapping_mul(self.width))
    }
}
