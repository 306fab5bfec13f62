//! Why a command ends with a status other than 0.

use std::process::ExitCode;

use serde_json::json;

/// The reason why a command fails.
#[derive(Debug)]
pub enum Failure {
    /// What was checked is wrong: status 1.
    Wrong(String),
    /// What was compared differs; the text says how: status 1.
    Differs(String),
    /// The command line is wrong, or a file cannot be read or written: status 2.
    Usage(String),
}

impl Failure {
    /// The exit status.
    pub fn status(&self) -> ExitCode {
        match self {
            Self::Wrong(_) | Self::Differs(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
        }
    }

    /// Writes the message: to standard error, or as JSON to standard output.
    pub fn tell(&self, as_json: bool) {
        match self {
            // The answer that was asked for.
            Self::Differs(text) => print!("{text}"),
            Self::Wrong(message) | Self::Usage(message) if as_json => {
                println!("{}", json!({ "error": message }));
            }
            Self::Wrong(message) | Self::Usage(message) => eprintln!("burn-amp: {message}"),
        }
    }
}
