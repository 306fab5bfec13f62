//! The models and precisions that can be measured.

use std::fmt;

use lab::{precision::Precision, table::Table};
use zoo::{Size, ZOO};

pub struct List;

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut models = Table::new("<model | >parameters | >batch full | >tiny");
        for entry in ZOO {
            models.push([
                entry.name.to_owned(),
                entry.parameters.to_string(),
                entry.batch_size(Size::Full).to_string(),
                entry.batch_size(Size::Tiny).to_string(),
            ]);
        }
        let mut precisions = Table::new("<precision | <meaning");
        for precision in Precision::ALL {
            precisions.push([precision.name(), precision.meaning()].map(str::to_owned));
        }
        write!(f, "{}\n{}", models.plain(), precisions.plain())
    }
}
