//! A progress bar on a terminal, nothing in a pipe, and Ctrl-C that stops between two steps.

use halflit::Watch;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Shows how far a run is, and stops it on Ctrl-C.
pub struct Progress {
    bar: ProgressBar,
    interrupted: Option<Arc<AtomicBool>>,
}

impl Progress {
    /// A bar named `what`; Ctrl-C is caught from now on.
    pub fn new(what: &'static str) -> Self {
        Progress { interrupted: Some(interrupt_flag()), ..Progress::unguarded(what) }
    }

    /// A bar for work that may end at any moment: Ctrl-C is not caught.
    pub fn unguarded(what: &'static str) -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Progress { bar, interrupted: None }
    }
}

impl Watch for Progress {
    fn progress(&mut self, done: u64, total: u64) -> ControlFlow<()> {
        self.bar.set_length(total);
        self.bar.set_position(done);
        if done == total {
            self.bar.finish_and_clear();
        }
        match &self.interrupted {
            Some(flag) if flag.load(Ordering::Relaxed) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Set by the first Ctrl-C; the second one ends the program at once. Both leave the charge and no release.
fn interrupt_flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        // Without a handler Ctrl-C ends the program at once, which is safe too.
        let _ = ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        flag
    })
    .clone()
}
