//! The models and precisions there are.

use std::fmt;

use bench_entries::layout::{Align, Table};
use zoo::{Size, ZOO};

use crate::precision::Precision;

pub struct List;

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut models = Table::new([
            ("model", Align::Left),
            ("parameters", Align::Right),
            ("batch full", Align::Right),
            ("tiny", Align::Right),
        ]);
        for entry in ZOO {
            models.push([
                entry.name.to_owned(),
                entry.parameters.to_string(),
                entry.batch_size(Size::Full).to_string(),
                entry.batch_size(Size::Tiny).to_string(),
            ]);
        }
        let mut precisions = Table::new([("precision", Align::Left), ("", Align::Left)]);
        for precision in Precision::ALL {
            precisions.push([precision.name(), precision.meaning()].map(str::to_owned));
        }
        write!(f, "{}\n{}", models.plain(), precisions.plain())
    }
}
