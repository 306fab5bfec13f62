//! The values that are written as names.

use crate::named::named;

named! {
    /// How much runs in low precision.
    Preset = O1 {
        /// Everything runs in F32, as without Amp.
        O0 = "o0",
        /// Autocast: every op runs in the precision of its class.
        O1 = "o1",
        /// Autocast; `burn_amp::cast_params` stores all parameters but those of norms in the compute dtype.
        O2 = "o2",
        /// Ops that `o1` computes in F32 run low too; `burn_amp::cast_params` stores every parameter in the compute dtype.
        O3 = "o3",
    }
}

named! {
    /// The dtype of `Low` ops.
    Compute = Auto {
        /// BF16 if the device accelerates it, else F16 if the device accelerates that, else F32.
        Auto = "auto",
        /// BF16.
        Bf16 = "bf16",
        /// F16.
        F16 = "f16",
        /// F32.
        F32 = "f32",
    }
}

named! {
    /// What a graph keeps of the operands that its backward pass reads.
    Saved = Whole {
        /// The operands as the ops read them.
        Whole = "whole",
        /// Eight bits of each element, in blocks of 64 that share a scale.
        EightBits = "8bit",
    }
}

named! {
    /// Whether the loss is scaled, and whether the scale moves.
    LossScaleMode = Auto {
        /// The same as `dynamic` if the compute dtype is F16, else the same as `off`.
        Auto = "auto",
        /// The scale grows after finite steps and backs off after an overflow.
        Dynamic = "dynamic",
        /// The scale stays at `init`.
        Static = "static",
        /// The loss is not scaled, but gradients are checked, and a step that overflows is skipped: for bf16.
        Check = "check",
        /// The loss is not scaled.
        Off = "off",
    }
}
