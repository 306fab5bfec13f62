//! What a graph keeps with `saved = "8bit"`, and what that does to the gradients.

use lab::table::Table;
use serde::Serialize;

use crate::{
    gradients, memory,
    precision::{Bf16, Bf16Saved8Bit, F32, Precision},
    relative::Gradients,
    subject::{Subject, Visitor},
};

/// The numbers of one subject.
#[derive(Clone, Debug, Serialize)]
pub struct EightBits {
    pub subject: &'static str,
    pub f32_bytes: u64,
    pub bf16_bytes: u64,
    pub kept_bytes: u64,
    /// Of all gradients together, with those in BF16 from the same weights and batch.
    pub cosine: f64,
    /// The same of the gradients in BF16 with those in F32.
    pub bf16_cosine: f64,
}

/// Measures a subject.
pub struct Measure(pub &'static str);

impl Visitor for Measure {
    type Output = EightBits;

    fn visit<S: Subject>(self, subject: &S) -> EightBits {
        let f32 = gradients::drawn::<<F32 as Precision>::Training, S>(subject);
        let bf16 = gradients::drawn::<<Bf16 as Precision>::Training, S>(subject);
        let saved = gradients::drawn::<<Bf16Saved8Bit as Precision>::Training, S>(subject);
        EightBits {
            subject: self.0,
            f32_bytes: memory::kept::<<F32 as Precision>::Training, S>(subject, 1),
            bf16_bytes: memory::kept::<<Bf16 as Precision>::Training, S>(subject, 1),
            kept_bytes: memory::kept::<<Bf16Saved8Bit as Precision>::Training, S>(subject, 1),
            cosine: cosine(&saved, &bf16),
            bf16_cosine: cosine(&bf16, &f32),
        }
    }
}

/// The cosine of the angle between two sets of gradients, each as one vector.
fn cosine(one: &Gradients, other: &Gradients) -> f64 {
    let dot = |a: &Gradients, b: &Gradients| -> f64 {
        let values = a
            .iter()
            .flat_map(|(name, values)| values.iter().zip(&b[name]));
        values.map(|(x, y)| x * y).sum()
    };
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

/// The table of all subjects.
pub fn table(rows: &[EightBits]) -> Table {
    let mut table = Table::new(
        "<subject | >f32, KiB | >bf16 | >over f32 | >8 bits | >over f32 | >cosine to bf16 | >bf16 to f32",
    );
    let show = |bytes: u64| format!("{:.0}", bytes as f64 / 1024.0);
    for row in rows {
        let over = |bytes: u64| format!("{:.2}", bytes as f64 / row.f32_bytes as f64);
        table.push([
            row.subject.to_owned(),
            show(row.f32_bytes),
            show(row.bf16_bytes),
            over(row.bf16_bytes),
            show(row.kept_bytes),
            over(row.kept_bytes),
            format!("{:.5}", row.cosine),
            format!("{:.5}", row.bf16_cosine),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject;

    #[test]
    fn nets_keep_less_in_eight_bits_and_have_the_same_gradients() {
        let _alone = memory::ALONE.lock();
        // Attention and GELU; batch norms and ReLUs; group norms and SiLUs.
        for name in ["bert", "resnet18", "diffusion"] {
            let row = subject::visit(name, Measure(name)).unwrap();
            assert!(20 * row.kept_bytes < 17 * row.bf16_bytes, "{row:?}");
            assert!(row.cosine > 0.999 && row.cosine < 1.0, "{row:?}");
        }
    }
}
