use super::KernelError;
use super::SingleSlopes;
use super::lanes::prefetch_values;

/// Rows evaluated together: what 32-bit lanes can hold without overflow (see `lanes`), and a tile that stays in cache.
pub const BLOCK_ROWS: usize = 32;

/// Which rows or units take part in a pass.
#[derive(Debug, Clone, Copy)]
pub enum Batch<'a> {
    /// All of them.
    All,
    /// These, strictly increasing: nobody takes part twice.
    Only(&'a [u32]),
}

impl Batch<'_> {
    /// How many take part, out of `len`; refuses a list that repeats, is unordered, or points beyond the end.
    pub(crate) fn check(&self, len: usize) -> Result<usize, KernelError> {
        let Batch::Only(list) = self else { return Ok(len) };
        let mut least = 0u64;
        for (position, &index) in list.iter().enumerate() {
            if u64::from(index) < least || index as usize >= len {
                return Err(KernelError::Batch { position, index, len });
            }
            least = u64::from(index) + 1;
        }
        Ok(list.len())
    }
}

/// The rows of one block, by index into the table.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    rows: BlockRows<'a>,
}

#[derive(Debug, Clone, Copy)]
enum BlockRows<'a> {
    Run { first: usize, len: usize },
    List(&'a [u32]),
}

impl<'a> Block<'a> {
    pub(crate) fn run(first: usize, len: usize) -> Self {
        Block { rows: BlockRows::Run { first, len } }
    }

    pub(crate) fn list(rows: &'a [u32]) -> Self {
        Block { rows: BlockRows::List(rows) }
    }

    /// The block at positions `start..end` of a batch.
    pub(crate) fn of(batch: Batch<'a>, start: usize, end: usize) -> Self {
        match batch {
            Batch::All => Block::run(start, end - start),
            Batch::Only(list) => Block::list(&list[start..end]),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self.rows {
            BlockRows::Run { len, .. } => len,
            BlockRows::List(rows) => rows.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table's index of the row at `position` in the block.
    #[inline(always)]
    pub fn row(&self, position: usize) -> usize {
        match self.rows {
            BlockRows::Run { first, .. } => first + position,
            BlockRows::List(rows) => rows[position] as usize,
        }
    }

    /// The first row, if a whole block of rows follows it.
    pub(crate) fn first_of_whole(&self) -> Option<usize> {
        match self.rows {
            BlockRows::Run { first, len: BLOCK_ROWS } => Some(first),
            _ => None,
        }
    }

    /// The block's rows, if they are scattered.
    pub(crate) fn scattered(&self) -> &'a [u32] {
        match self.rows {
            BlockRows::Run { .. } => &[],
            BlockRows::List(rows) => rows,
        }
    }

    /// Asks for this block's entries of a per-row column, where the rows are scattered: they travel while another block is computed.
    #[inline(always)]
    pub fn prefetch<T>(&self, column: &[T]) {
        prefetch_values(column, self.scattered());
    }

    /// The block's entries of a per-row column: a slice of the column, or gathered into `buffer`.
    #[inline(always)]
    pub fn values<'b, T: Copy>(&self, column: &'b [T], buffer: &'b mut [T; BLOCK_ROWS]) -> &'b [T] {
        match self.rows {
            BlockRows::Run { first, len } => &column[first..first + len],
            BlockRows::List(rows) => {
                for (slot, &row) in buffer.iter_mut().zip(rows) {
                    *slot = column[row as usize];
                }
                &buffer[..rows.len()]
            }
        }
    }
}

/// Where a block's rows start in row-major storage.
#[derive(Debug, Clone)]
pub(crate) struct Starts {
    offsets: [usize; BLOCK_ROWS],
    len: usize,
}

impl Starts {
    /// Of no rows.
    pub(crate) const NONE: &Starts = &Starts { offsets: [0; BLOCK_ROWS], len: 0 };

    /// Replaces them by those of another block.
    pub(crate) fn set(&mut self, block: &Block<'_>, width: usize) {
        self.len = block.len();
        let offsets = &mut self.offsets[..self.len];
        match block.rows {
            BlockRows::Run { first, .. } => {
                let mut start = first.wrapping_mul(width);
                for offset in offsets {
                    *offset = start;
                    start = start.wrapping_add(width);
                }
            }
            BlockRows::List(rows) => {
                for (offset, &row) in offsets.iter_mut().zip(rows) {
                    *offset = (row as usize).wrapping_mul(width);
                }
            }
        }
    }
}

impl std::ops::Deref for Starts {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.offsets[..self.len]
    }
}

/// How a row's score becomes its real coefficient, before rounding and clamping.
///
/// # Contract
///
/// The coefficient of a row must be a function of that row's own cells, its own scores and public values: the same bits
/// whatever else is in the block. Evaluate row by row, in additions, multiplications, divisions, square roots and
/// comparisons; no library function whose result depends on the machine, no sum across rows.
pub trait Rule: Sync {
    /// Scores and coefficients per row: 1, or the number of classes.
    fn outputs(&self) -> usize {
        1
    }

    /// Refuses to run on `rows` rows when the rule's own columns have another length. Called once per pass.
    fn check(&self, _rows: usize) -> Result<(), KernelError> {
        Ok(())
    }

    /// Asks for what [`Rule::fill`] will read of a block that comes later ([`Block::prefetch`]). It may do nothing.
    fn prefetch(&self, _block: &Block<'_>) {}

    /// The rule as probabilities minus labels, if that is what it is: passes then compute them in single precision
    /// instead of calling [`Rule::fill`].
    fn in_single(&self) -> Option<SingleSlopes<'_>> {
        None
    }

    /// Fills the coefficients of a block. Both slices are output-major: entry `output * block.len() + position`.
    ///
    /// Mark the implementation `#[inline(always)]`: it is then compiled for the vectors of the processor.
    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]);
}

/// A rule given by a function of the row's index and score.
pub struct PerRow<F>(
    /// Maps (row index, score) to the real coefficient.
    pub F,
);

impl<F: Fn(usize, f64) -> f64 + Sync> Rule for PerRow<F> {
    #[inline(always)]
    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        for (position, (coefficient, &score)) in coefficients.iter_mut().zip(scores).enumerate() {
            *coefficient = self.0(block.row(position), score);
        }
    }
}
