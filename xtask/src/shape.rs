//! The shape of a signature: its operand types and its result in the words of the op table.

use anyhow::{Context, Result};
use quote::ToTokens;
use syn::{
    FnArg, PathArguments, ReturnType, Signature, Type, TypeBareFn, TypePath,
    visit_mut::{self, VisitMut},
};

/// Burn's names, and what the table calls them.
const BURN: &[(&str, &str)] = &[
    ("FloatTensor", "F"),
    ("IntTensor", "I"),
    ("BoolTensor", "Bool"),
    ("QuantizedTensor", "Q"),
    ("TensorPrimitive", "Primitive"),
    ("Device", "Device"),
];

/// Names that only the table has, and what they are in a signature.
const TABLE: &[(&str, &str)] = &[("Wide", "F")];

/// The shape of a method of Burn's.
pub fn of_signature(signature: &Signature) -> String {
    let operands = signature.inputs.iter().map(|operand| match operand {
        FnArg::Receiver(_) => "self".to_owned(),
        FnArg::Typed(operand) => name(&operand.ty, BURN),
    });
    shape(operands, &signature.output, BURN)
}

/// The shape a row must have in Burn: `Wide` is a float tensor.
pub fn of_row(row: &str) -> Result<String> {
    parse(row, TABLE)
}

/// A row's shape in the table's own words, spaced the same by every compiler that stringifies it.
pub fn tidy(row: &str) -> Result<String> {
    parse(row, &[])
}

/// Whether the text of a row is a shape, not the reason why it is written by hand.
pub fn is_shape(row: &str) -> bool {
    row.starts_with('(')
}

fn parse(row: &str, names: Names) -> Result<String> {
    let row: TypeBareFn =
        syn::parse_str(&format!("fn{row}")).with_context(|| format!("no shape: `{row}`"))?;
    let operands = row.inputs.iter().map(|operand| name(&operand.ty, names));
    Ok(shape(operands, &row.output, names))
}

type Names = &'static [(&'static str, &'static str)];

fn shape(operands: impl Iterator<Item = String>, output: &ReturnType, names: Names) -> String {
    let output = match output {
        ReturnType::Default => "()".to_owned(),
        ReturnType::Type(_, output) => name(output, names),
    };
    let operands = operands.collect::<Vec<_>>().join(", ");
    format!("({operands}) -> {output}")
}

fn name(ty: &Type, names: Names) -> String {
    let mut ty = ty.clone();
    Rename(names).visit_type_mut(&mut ty);
    // Tokens are spaced out when printed; no type in a shape needs a space elsewhere than after these two.
    ty.to_token_stream()
        .to_string()
        .replace(' ', "")
        .replace(',', ", ")
        .replace(';', "; ")
}

/// Drops module paths, and replaces a name, with or without `<B>`, by its short one.
struct Rename(Names);

impl VisitMut for Rename {
    fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
        visit_mut::visit_type_path_mut(self, ty);
        let Some(pair) = ty.path.segments.pop() else {
            return;
        };
        let mut last = pair.into_value();
        let of_backend = match &last.arguments {
            PathArguments::None => true,
            arguments => arguments.to_token_stream().to_string() == "< B >",
        };
        let short = self.0.iter().find(|(long, _)| last.ident == long);
        if let Some((_, short)) = short.filter(|_| of_backend) {
            last.ident = syn::Ident::new(short, last.ident.span());
            last.arguments = PathArguments::None;
        }
        ty.path.leading_colon = None;
        ty.path.segments.clear();
        ty.path.segments.push(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(signature: &str) -> String {
        of_signature(&syn::parse_str(signature).unwrap())
    }

    #[test]
    fn burns_types_get_the_names_of_the_table() {
        assert_eq!(
            of("fn f(x: FloatTensor<B>, d: &Device<B>, i: Option<IntTensor<B>>) -> BoolTensor<B>"),
            "(F, &Device, Option<I>) -> Bool"
        );
        assert_eq!(
            of("fn q(x: QuantizedTensor<B>, s: &[Slice]) -> (TensorPrimitive<B>, IntTensor<B>)"),
            "(Q, &[Slice]) -> (Primitive, I)"
        );
        assert_eq!(of("fn n()"), "() -> ()");
    }

    #[test]
    fn paths_and_other_generics_keep_what_tells_them_apart() {
        assert_eq!(
            of(
                "fn f(r: core::ops::Range<i64>, o: ConvOptions<2>, s: [usize; 2]) -> FloatTensor<C>"
            ),
            "(Range<i64>, ConvOptions<2>, [usize; 2]) -> FloatTensor<C>"
        );
    }

    #[test]
    fn a_row_is_compared_with_wide_as_float_and_printed_as_it_is() {
        let row = "(F, Vec < F >,[usize ; 2]) -> Wide";
        assert_eq!(of_row(row).unwrap(), "(F, Vec<F>, [usize; 2]) -> F");
        assert_eq!(tidy(row).unwrap(), "(F, Vec<F>, [usize; 2]) -> Wide");
        assert!(of_row("(F, ) - F").is_err());
    }

    #[test]
    fn a_reason_is_no_shape() {
        assert!(is_shape("() -> bool"));
        assert!(!is_shape("returns a struct of tensors"));
    }
}
