//! The values that are written as names.

use std::{fmt, str::FromStr};

/// Writes an enum whose variants have names in files.
///
/// A macro, because a function can write neither an enum nor its trait implementations.
macro_rules! named {
    ($(#[$doc:meta])* $Name:ident { $($(#[$variant_doc:meta])* $Variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Name { $($(#[$variant_doc])* #[doc = concat!(" Written `", $name, "`.")] $Variant,)* }

        impl $Name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$Variant,)*];

            /// The name of every value, in the order of `ALL`.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name used in `amp.toml`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)* }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $Name {
            type Err = ();

            fn from_str(name: &str) -> Result<Self, ()> {
                Self::ALL.iter().copied().find(|value| value.name() == name).ok_or(())
            }
        }
    };
}

named! {
    /// How much runs in low precision.
    Preset {
        /// Everything runs in F32, as without Amp.
        O0 = "o0",
        /// Autocast: every op runs in the precision of its class.
        #[default]
        O1 = "o1",
        /// Autocast; `burn_amp::cast_params` stores parameters in the compute dtype, but for norms.
        O2 = "o2",
        /// What `o1` runs in F32 runs low too; `burn_amp::cast_params` stores every parameter in the compute dtype.
        O3 = "o3",
    }
}

named! {
    /// The dtype of `Low` ops.
    Compute {
        /// BF16 where the device accelerates it, else F16, else F32.
        #[default]
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
    /// How the loss is scaled.
    LossScaleMode {
        /// As `dynamic` where the compute dtype is F16, else as `off`.
        #[default]
        Auto = "auto",
        /// The scale grows after finite steps and backs off after an overflow.
        Dynamic = "dynamic",
        /// The scale is `init`, always.
        Static = "static",
        /// The loss is not scaled.
        Off = "off",
    }
}
