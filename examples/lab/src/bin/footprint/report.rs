//! The tables of a report, one for each measure.

use anyhow::{Context, Result};
use lab::table::{Table, cell};
use serde::Serialize;

use crate::{
    eight_bits::{self, EightBits},
    heavy::{Heavy, Three},
    pytorch::PyTorch,
    row::Row,
};

/// What the numbers should be at most; a number above its goal is marked.
mod goal {
    pub const KEPT: f64 = 0.55;
    pub const CHECKPOINTED: f64 = 0.6;
    pub const PEAK: f64 = 0.65;
    pub const HEAVY_PEAK: f64 = 1.0;
    pub const TRAFFIC: f64 = 0.75;
    pub const LAUNCHES: f64 = 1.15;
    pub const OVER_PYTORCH: f64 = 1.05;
    pub const GRADIENT_ERROR: f64 = 1.1;
    /// Of a block of BERT-base, in MiB.
    pub const BERT_BLOCK: f64 = 205.0;
}

/// The line of a page after which the tables stand.
const MARK: &str = "<!-- footprint -->\n";

/// All numbers of a session.
#[derive(Serialize)]
pub struct Report {
    pub rows: Vec<Row>,
    /// Of the models of the zoo.
    pub eight_bits: Vec<EightBits>,
    /// `None` if only some subjects were measured.
    pub heavy: Option<Heavy>,
    pub pytorch: Option<PyTorch>,
}

impl Report {
    /// The tables, in markdown or for a terminal.
    pub fn text(&self, markdown: bool) -> String {
        let mut sections = vec![
            self.section(
                "Kept after the forward pass, KiB",
                goal::KEPT,
                1024.0,
                |row| row.kept_bytes,
            ),
            self.section(
                "Kept under BalancedCheckpointing, KiB",
                goal::CHECKPOINTED,
                1024.0,
                |row| row.checkpointed_bytes,
            ),
            self.section(
                "Peak of forward and backward pass, KiB",
                goal::PEAK,
                1024.0,
                |row| row.peak_bytes,
            ),
            self.section(
                "Traffic besides matrix products and convolutions, KiB",
                goal::TRAFFIC,
                1024.0,
                |row| row.traffic_bytes,
            ),
            self.section("Launches", goal::LAUNCHES, 1.0, |row| row.launches),
        ];
        if !self.eight_bits.is_empty() {
            let title = "Kept with `saved = \"8bit\"`, and the cosine of the gradients";
            sections.push((title.to_owned(), eight_bits::table(&self.eight_bits)));
        }
        sections.extend(self.heavy.as_ref().map(heavy));
        sections.extend(self.pytorch.as_ref().map(|it| self.kept_beside(it)));
        sections.extend(self.pytorch.as_ref().map(|it| self.errors_beside(it)));
        let text = sections.into_iter().map(|(title, table)| {
            let (heading, table) = if markdown {
                ("## ", table.markdown())
            } else {
                ("", table.plain())
            };
            format!("{heading}{title}\n\n{table}\n")
        });
        text.collect()
    }

    /// The page with the tables in place of what follows its mark.
    ///
    /// # Errors
    ///
    /// Returns an error if the page has no mark.
    pub fn on_page(&self, page: &str) -> Result<String> {
        let (head, _) = page
            .split_once(MARK)
            .with_context(|| format!("no line `{}`", MARK.trim_end()))?;
        Ok(format!("{head}{MARK}\n{}\n", self.text(true).trim_end()))
    }

    /// A measure of every subject: in F32, and in BF16 and F16 with their ratios to F32.
    fn section(
        &self,
        what: &str,
        goal: f64,
        unit: f64,
        measure: impl Fn(&Row) -> u64,
    ) -> (String, Table) {
        let mut table = Table::new("<subject | >f32 | >bf16 | >over f32 | >f16 | >over f32");
        let show = |value: u64| format!("{:.0}", value as f64 / unit);
        for rows in self.rows.chunks(3) {
            let [f32, bf16, f16] = [0, 1, 2].map(|i| measure(&rows[i]));
            let over = |value: u64| marked(value as f64 / f32 as f64, goal);
            table.push([
                rows[0].subject.clone(),
                show(f32),
                show(bf16),
                over(bf16),
                show(f16),
                over(f16),
            ]);
        }
        (format!("{what} (goal: at most {goal} of f32)"), table)
    }

    fn kept_beside(&self, pytorch: &PyTorch) -> (String, Table) {
        let mut table = Table::new(
            "<subject | >f32 | >PyTorch | >bf16 | >PyTorch | >over f32 | >over PyTorch | >f16 | >PyTorch | >over f32 | \
             >over PyTorch",
        );
        let show = |bytes: u64| format!("{:.0}", bytes as f64 / 1024.0);
        for rows in self.rows.chunks(3) {
            let mut cells = vec![rows[0].subject.clone()];
            for row in rows {
                let ours = row.tensor_bytes;
                let theirs = pytorch
                    .row(&row.subject, &row.precision)
                    .map(|it| it.tensor_bytes);
                cells.push(show(ours));
                cells.push(cell(theirs, show));
                if row.precision != "f32" {
                    let over = |base: u64, goal| marked(ours as f64 / base as f64, goal);
                    cells.push(over(rows[0].tensor_bytes, goal::KEPT));
                    cells.push(cell(theirs, |theirs| over(theirs, goal::OVER_PYTORCH)));
                }
            }
            table.push(cells);
        }
        let title = format!(
            "Kept of each further batch beside PyTorch {}, KiB (goal: at most {} of f32, {} of PyTorch's)",
            pytorch.version,
            goal::KEPT,
            goal::OVER_PYTORCH
        );
        (title, table)
    }

    fn errors_beside(&self, pytorch: &PyTorch) -> (String, Table) {
        let mut table = Table::new(
            "<subject | >f32 | >bf16 | >PyTorch bf16 | >over PyTorch | >f16 | >PyTorch f16 | >over PyTorch | \
             >worst bf16 | >PyTorch's | <of",
        );
        let show = |error: f64| format!("{error:.1e}");
        for rows in self.rows.chunks(3) {
            let mut cells = vec![rows[0].subject.clone()];
            let mut worst = vec!["-".to_owned(); 3];
            for row in rows {
                let ours = row.gradient_error.as_ref();
                cells.push(cell(ours, |it| show(it.overall)));
                if row.precision == "f32" {
                    continue;
                }
                let theirs = pytorch
                    .row(&row.subject, &row.precision)
                    .map(|it| &it.gradient_error);
                cells.push(cell(theirs, |it| show(it.overall)));
                let over = ours
                    .zip(theirs)
                    .map(|(ours, theirs)| ours.overall / theirs.overall);
                cells.push(cell(over, |over| marked(over, goal::GRADIENT_ERROR)));
                if row.precision == "bf16" {
                    worst = vec![
                        cell(ours, |it| show(it.largest)),
                        cell(theirs, |it| show(it.largest)),
                        cell(ours, |it| it.parameter.clone()),
                    ];
                }
            }
            cells.extend(worst);
            table.push(cells);
        }
        let goal = goal::GRADIENT_ERROR;
        (
            format!(
                "Gradient error against F64 beside PyTorch {} (goal: at most {goal} of PyTorch's)",
                pytorch.version
            ),
            table,
        )
    }
}

fn heavy(heavy: &Heavy) -> (String, Table) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut table = Table::new("<what | >f32 | >bf16 | >over f32 | >f16 | >over f32 | <goal");
    let mut push = |what: &str, it: Three, over: &dyn Fn(u64) -> String, goal: &str| {
        let show = |bytes| format!("{:.1}", mib(bytes));
        let cells = [
            show(it.f32),
            show(it.bf16),
            over(it.bf16),
            show(it.f16),
            over(it.f16),
        ];
        let ends = [what.to_owned(), goal.to_owned()];
        let [what, goal] = ends;
        table.push([vec![what], cells.into(), vec![goal]].concat());
    };
    let it = heavy.peak_of_step;
    let over = |bytes: u64| marked(bytes as f64 / it.f32 as f64, goal::HEAVY_PEAK);
    push(
        "peak of a training step of a parameter-heavy MLP",
        it,
        &over,
        "at most f32's",
    );
    let it = heavy.bert_block_kept;
    let over = |bytes: u64| {
        let ratio = format!("{:.2}", bytes as f64 / it.f32 as f64);
        ratio + mark(mib(bytes), goal::BERT_BLOCK)
    };
    let goal = format!("at most {} MiB", goal::BERT_BLOCK);
    push("kept by a block of BERT-base", it, &over, &goal);
    ("Large nets, MiB".to_owned(), table)
}

/// A ratio to two decimals, marked with `!` if they miss its goal.
fn marked(ratio: f64, goal: f64) -> String {
    let shown = (ratio * 100.0).round() / 100.0;
    format!("{shown:.2}{}", mark(shown, goal))
}

fn mark(value: f64, goal: f64) -> &'static str {
    if value <= goal { "" } else { " !" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_replace_what_follows_the_mark() {
        let report = Report {
            rows: Vec::new(),
            eight_bits: Vec::new(),
            heavy: None,
            pytorch: None,
        };
        let page = report
            .on_page("# Page\n\n<!-- footprint -->\nold\n")
            .unwrap();
        assert!(
            page.starts_with("# Page\n\n<!-- footprint -->\n\n## Kept"),
            "{page}"
        );
        assert!(!page.contains("old"));
        assert!(report.on_page("# Page\n").is_err());
    }

    #[test]
    fn what_misses_its_goal_is_marked() {
        assert_eq!(
            [0.55, 0.56].map(|ratio| marked(ratio, goal::KEPT)),
            ["0.55", "0.56 !"]
        );
        assert_eq!(marked(f64::NAN, goal::KEPT), "NaN !");
    }
}
