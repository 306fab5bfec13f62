//! The macro in which the ops of random programs are written, each with its shape rule.

/// Declares an enum of ops from rows `Name [operands] (parameters) shape => body;`.
///
/// The shape of the result is an `Option<Vec<usize>>` computed from the operands' shapes, which have the operands'
/// names; `None` refuses the operands. The body computes the result from primitives. `$to` names the
/// [`Setting`](super::Setting).
///
/// A macro, so that what is printed of a program is the code that ran: the body is compiled and quoted.
macro_rules! table {
    (
        $(#[$doc:meta])* $Table:ident, $to:ident;
        $($name:ident [$($x:ident),*] ($($p:ident: $t:ty),*) $shape:expr => $body:expr;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Table {
            $($name { $($p: $t),* },)*
        }

        impl $Table {
            /// The shape of the result; `None` if the operands do not fit.
            #[allow(clippy::redundant_closure_call, unused_variables, reason = "a row may need neither")]
            pub fn shape(&self, operands: &[Vec<usize>]) -> Option<Vec<usize>> {
                match self.clone() {
                    $(Self::$name { $($p),* } => {
                        let [$($x),*] = operands else { return None };
                        (|| $shape)()
                    })*
                }
            }

            /// Computes the result.
            #[allow(unused_variables, reason = "not every row needs the setting")]
            pub fn call<B: AutodiffBackend>(
                &self,
                operands: Vec<FloatTensor<B>>,
                $to: &Setting<B>,
            ) -> FloatTensor<B> {
                let mut operands = operands.into_iter();
                match self.clone() {
                    $(Self::$name { $($p),* } => {
                        $(let $x = operands.next().expect("an operand for each name of the row");)*
                        $body
                    })*
                }
            }

            /// The names of the operands, the parameters with their values, and the code.
            pub fn text(&self) -> Text {
                match self {
                    $(Self::$name { $($p),* } => Text {
                        operands: &[$(stringify!($x)),*],
                        parameters: vec![$((stringify!($p), $p.literal())),*],
                        body: stringify!($body),
                    },)*
                }
            }

            /// The name of the op.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }
        }
    };
}

/// An op as it is printed.
pub struct Text {
    pub operands: &'static [&'static str],
    pub parameters: Vec<(&'static str, String)>,
    pub body: &'static str,
}

pub(super) use table;
