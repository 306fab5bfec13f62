//! The progress of a session, on stderr.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::plan::Run;

/// A bar over the steps of all runs; shown only if stderr is a terminal.
pub struct Progress {
    bar: ProgressBar,
    steps_per_run: u64,
}

impl Progress {
    pub fn new(runs: usize, steps_per_run: usize) -> Self {
        let bar = ProgressBar::new((runs * steps_per_run) as u64);
        let style = ProgressStyle::with_template("{elapsed} [{bar:30}] {percent:>3} %  {msg}");
        bar.set_style(
            style
                .expect("the template is constant")
                .progress_chars("=> "),
        );
        bar.enable_steady_tick(Duration::from_secs(1));
        Self {
            bar,
            steps_per_run: steps_per_run as u64,
        }
    }

    pub fn start(&self, run: &Run) {
        self.bar.set_message(run.to_string());
    }

    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Ends the run of this index, wherever it stopped, with a line on stdout.
    pub fn end(&self, index: usize, line: &str) {
        self.bar
            .set_position((index as u64 + 1) * self.steps_per_run);
        self.bar.suspend(|| println!("{line}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
