//! The shape of a signature: its operand types and its result, written as in the op table.

use anyhow::{Context, Result};
use quote::ToTokens;
use syn::{
    FnArg, GenericArgument, PathArguments, ReturnType, Signature, Type, TypeBareFn, TypeParamBound,
    TypePath,
    visit_mut::{self, VisitMut},
};

/// Burn's names of types, with the table's names for them.
const BURN: &[(&str, &str)] = &[
    ("FloatTensor", "F"),
    ("IntTensor", "I"),
    ("BoolTensor", "Bool"),
    ("QuantizedTensor", "Q"),
    ("TensorPrimitive", "Primitive"),
    ("Device", "Device"),
];

/// Names that only the table has, with the names that a signature has instead.
const TABLE: &[(&str, &str)] = &[("Wide", "F")];

/// The shape of a method's signature in Burn.
pub fn of_signature(signature: &Signature) -> String {
    let operands = signature.inputs.iter().map(|operand| match operand {
        FnArg::Receiver(_) => "self".to_owned(),
        FnArg::Typed(operand) => name(&operand.ty, BURN),
    });
    match awaited(&signature.output) {
        Some(output) => format!("async {}", shape(operands, name(output, BURN))),
        None => shape(operands, result(&signature.output, BURN)),
    }
}

/// The shape that a row's method must have in Burn, where `Wide` is an ordinary float tensor.
pub fn of_row(row: &str) -> Result<String> {
    parse(row, TABLE)
}

/// A row's shape with uniform spaces; `stringify!` may space it differently from compiler to compiler.
pub fn tidy(row: &str) -> Result<String> {
    parse(row, &[])
}

fn parse(row: &str, names: Names) -> Result<String> {
    let (keyword, signature) = match row.strip_prefix("async") {
        Some(signature) => ("async ", signature),
        None => ("", row),
    };
    let signature: TypeBareFn = syn::parse_str(&format!("fn{signature}"))
        .with_context(|| format!("not a shape: `{row}`"))?;
    let operands = signature.inputs.iter();
    let operands = operands.map(|operand| name(&operand.ty, names));
    let shape = shape(operands, result(&signature.output, names));
    Ok(format!("{keyword}{shape}"))
}

type Names = &'static [(&'static str, &'static str)];

fn shape(operands: impl Iterator<Item = String>, output: String) -> String {
    let operands = operands.collect::<Vec<_>>().join(", ");
    format!("({operands}) -> {output}")
}

fn result(output: &ReturnType, names: Names) -> String {
    match output {
        ReturnType::Default => "()".to_owned(),
        ReturnType::Type(_, output) => name(output, names),
    }
}

/// The `T` of a result `impl Future<Output = T>`, which is how Burn declares an async method.
fn awaited(output: &ReturnType) -> Option<&Type> {
    let ReturnType::Type(_, output) = output else {
        return None;
    };
    let Type::ImplTrait(future) = &**output else {
        return None;
    };
    future.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let last = bound.path.segments.last()?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else {
            return None;
        };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    })
}

fn name(ty: &Type, names: Names) -> String {
    let mut ty = ty.clone();
    Rename(names).visit_type_mut(&mut ty);
    // Tokens are printed with spaces between them; a type in a shape needs one only after a comma or a semicolon.
    ty.to_token_stream()
        .to_string()
        .replace(' ', "")
        .replace(',', ", ")
        .replace(';', "; ")
}

/// Drops module paths and the argument `<B>`, and replaces long names by short ones.
struct Rename(Names);

impl VisitMut for Rename {
    fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
        visit_mut::visit_type_path_mut(self, ty);
        let Some(pair) = ty.path.segments.pop() else {
            return;
        };
        let mut last = pair.into_value();
        if last.arguments.to_token_stream().to_string() == "< B >" {
            last.arguments = PathArguments::None;
        }
        let short = self.0.iter().find(|(long, _)| last.ident == long);
        if let Some((_, short)) = short.filter(|_| last.arguments.is_none()) {
            last.ident = syn::Ident::new(short, last.ident.span());
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
    fn other_generics_stay_and_paths_do_not() {
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
    fn a_method_that_returns_a_future_is_async() {
        let shape = "async (Bool, IntDType) -> I";
        let signature = "fn f(x: BoolTensor<B>, d: IntDType) -> impl Future<Output = IntTensor<B>> + 'static + Send";
        assert_eq!(of(signature), shape);
        assert_eq!(of_row("async (Bool, IntDType) -> I").unwrap(), shape);
        assert_eq!(
            of("fn f() -> impl Iterator<Item = u8>"),
            "() -> implIterator<Item=u8>"
        );
    }

    #[test]
    fn a_struct_of_tensors_stands_without_its_backend() {
        assert_eq!(
            of("fn f(t: TransactionPrimitive<B>) -> crate::ops::MaxPool2dBackward<B>"),
            "(TransactionPrimitive) -> MaxPool2dBackward"
        );
    }
}
