//! Cast classes: how an op's float operands are cast.

use crate::named::named;

named! {
    /// How the float operands and the result of an op are cast.
    ///
    /// Under every class, operands of different dtypes are promoted to their [join](crate::Precision::join), because
    /// Burn's backends do not compute on mixed dtypes. An op with an F64 operand stays in F64 under every class.
    Class {
        /// Operands are cast to the compute dtype; so is the result.
        Low = "low",
        /// Operands are cast to F32; the result is F32.
        Full = "full",
        /// The op computes in F32; its result is cast back to the operands' dtype.
        Internal = "internal",
        /// Operands are cast to the widest dtype among them; so is the result.
        Widest = "widest",
        /// Operands stay as they are; the result has their dtype.
        Keep = "keep",
    }
}
