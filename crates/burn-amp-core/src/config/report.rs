//! The `[report]` table.

/// The precision report that a training run writes by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportConfig {
    /// The number of steps that are recorded after the first one; 0 for no report.
    pub steps: u32,
    /// The files that the report is written to, without their endings: `.json`, `.html` and `.txt`.
    pub output: String,
    /// Whether a sample of the values in each cast to half precision is read, for those that are lost.
    pub samples: bool,
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self {
            steps: 0,
            output: "amp-report".into(),
            samples: false,
        }
    }
}
