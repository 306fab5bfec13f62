//! Files that a command reads. One that cannot be read ends every command with status 2.

use std::{fs, io::ErrorKind, path::Path};

use crate::failure::Failure;

/// Fails unless `file` is a file. The error says what is `wanted`.
pub fn file(file: &Path, wanted: &str) -> Result<(), Failure> {
    let name = file.display();
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(Failure::Usage(format!(
            "{name} is a folder; expected {wanted}"
        ))),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::Usage(format!("there is no file {name}")))
        }
        Err(error) => Err(Failure::Usage(format!("{name}: {error}"))),
    }
}

/// Reads a text. The error says what is `wanted`.
pub fn text(path: &Path, wanted: &str) -> Result<String, Failure> {
    file(path, wanted)?;
    let name = path.display();
    fs::read_to_string(path).map_err(|error| {
        Failure::Usage(match error.kind() {
            ErrorKind::InvalidData => format!("{name} is not UTF-8 text; expected {wanted}"),
            _ => format!("{name}: {error}"),
        })
    })
}
