//! A kernel's source as CubeCL writes it for CUDA: which buffers it reads and writes, and where a launch has their lengths.

use anyhow::{Context, Result, bail};

/// What the signature and the body of a kernel say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Parameters before the buffers: descriptors of tensors for TMA, whose buffers follow with the others.
    pub descriptors: usize,
    pub buffers: Vec<Buffer>,
    /// The field of the metadata that begins with the length of each buffer.
    pub lengths: Option<Field>,
    /// The first scalars of 32 bits: shapes and strides among other things.
    pub scalars: Option<Field>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes of the unit in which the buffer's length is counted: a scalar, or a vector of them.
    pub unit: u64,
    /// Bytes of a scalar.
    pub scalar: u64,
    pub access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

/// A field of the structure `info_st`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub offset: usize,
    pub element: usize,
    pub count: usize,
}

impl Kernel {
    /// Reads the source of a kernel.
    ///
    /// # Errors
    ///
    /// Returns an error that names what is not understood.
    pub fn parse(source: &str) -> Result<Self> {
        let entry = source
            .find("__global__ void")
            .context("no `__global__ void`")?;
        let (signature, body) = source[entry..]
            .split_once("\n) {")
            .or_else(|| source[entry..].split_once('{'))
            .context("no body")?;
        let mut kernel = Self {
            descriptors: 0,
            buffers: Vec::new(),
            lengths: None,
            scalars: None,
        };
        let parameters = signature.rsplit_once('(').context("no parameters")?.1;
        for parameter in parameters.split(',') {
            let name = parameter
                .split([' ', '\n', ')'])
                .rfind(|word| !word.is_empty());
            let name = name.unwrap_or_default();
            if parameter.contains("CUtensorMap") {
                kernel.descriptors += 1;
            } else if let Some((pointer, _)) = parameter.split_once('*')
                && !name.starts_with("dynamic_meta")
            {
                let (scalar, width) = scalar_and_width(pointer)?;
                kernel.buffers.push(Buffer {
                    unit: scalar * width,
                    scalar,
                    access: access(pointer, body, name),
                });
            }
        }
        for (name, field) in fields(source)? {
            match name {
                "static_meta" => kernel.lengths = Some(field),
                "scalars_uint32" => kernel.scalars = Some(field),
                _ => {}
            }
        }
        Ok(kernel)
    }
}

/// What a parameter such as `const float_4* __restrict__ buffer_0`, or `float_4 const* const __restrict__ v1` in CubeCL 0.11,
/// points to: the bytes of a scalar, and their number in a vector.
fn scalar_and_width(pointer: &str) -> Result<(u64, u64)> {
    let mut words = pointer.split_whitespace();
    let name = words.rfind(|word| *word != "const").unwrap_or_default();
    let (scalar, width) = match name.rsplit_once('_') {
        Some((scalar, width)) if width.chars().all(|c| c.is_ascii_digit()) => {
            (scalar, width.parse().unwrap_or(1))
        }
        _ => (name, 1),
    };
    Ok((scalar_bytes(scalar)? as u64, width))
}

/// The bytes of a scalar by CubeCL's name for it. That of CubeCL 0.11 ends in `_t`.
fn scalar_bytes(name: &str) -> Result<usize> {
    Ok(match name.strip_suffix("_t").unwrap_or(name) {
        "bool" | "int8" | "uint8" => 1,
        "__half" | "__nv_bfloat16" | "int16" | "uint16" => 2,
        "float" | "int" | "uint" | "int32" | "uint32" | "tf32" | "__half2" | "__nv_bfloat162" => 4,
        "double" | "int64" | "uint64" => 8,
        _ => bail!("unknown type `{name}`"),
    })
}

/// What a kernel does with a buffer. A buffer that is not `const` and whose elements are read only through its address is
/// an output. CubeCL 0.11 takes the address of each element, and reads or writes by that.
fn access(pointer: &str, body: &str, buffer: &str) -> Access {
    if pointer.split_whitespace().any(|word| word == "const") {
        return Access::Read;
    }
    let (mut reads, mut writes) = (false, false);
    for (at, _) in body.match_indices(buffer) {
        let rest = &body[at + buffer.len()..];
        if !rest.starts_with('[') {
            continue;
        }
        if let Some(declaration) = body[..at].strip_suffix(" = &")
            && let Some(element) = declaration.split_whitespace().next_back()
        {
            writes |= body.contains(&format!("*{element} = "));
            reads |= body.contains(&format!("= *{element};"));
            continue;
        }
        let is_address = body[..at].ends_with('&');
        let after = after_bracket(rest).trim_start();
        let is_assigned = after.starts_with('=') && !after.starts_with("==");
        writes |= is_assigned || is_address;
        reads |= !is_assigned && !is_address;
    }
    match (reads, writes) {
        (true, true) => Access::ReadWrite,
        _ => Access::Write,
    }
}

/// What follows the bracket that the text opens with.
fn after_bracket(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

/// The fields of `struct info_st { uint32 scalars_uint32[2]; uint64 static_meta[4]; };`, each aligned to its elements.
fn fields(source: &str) -> Result<Vec<(&str, Field)>> {
    let Some((_, rest)) = source.split_once("struct info_st {") else {
        return Ok(Vec::new());
    };
    let inner = rest.split('}').next().unwrap_or_default();
    let mut fields = Vec::new();
    let mut end = 0usize;
    for declaration in inner.split(';').map(str::trim).filter(|it| !it.is_empty()) {
        let (kind, rest) = declaration
            .split_once(' ')
            .context(declaration.to_owned())?;
        let (name, count) = rest.split_once('[').context(declaration.to_owned())?;
        let count = count.trim_end_matches(']').parse()?;
        let element = scalar_bytes(kind)?;
        let offset = end.next_multiple_of(element);
        end = offset + element * count;
        let field = Field {
            offset,
            element,
            count,
        };
        fields.push((name, field));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: &str = "
struct info_st {
    uint32 scalars_uint32[2];
__nv_bfloat16 scalars___nv_bfloat16[4];uint64 static_meta[4];
};

extern \"C\" __global__ void __launch_bounds__(256)add (
    float_4* buffer_0, const __nv_bfloat16_8* __restrict__ buffer_1, float* buffer_2, const uint32* __restrict__ dynamic_meta, const __grid_constant__ info_st info
) {
const float_4 l_5 = buffer_0[l_1[0]];
buffer_0[l_1[0]] = l_5 + buffer_1[idx];
buffer_2[idx] = 1.0;
}";

    #[test]
    fn buffers_have_units_and_what_is_done_with_them() {
        let buffer = |unit, scalar, access| Buffer {
            unit,
            scalar,
            access,
        };
        let expected = Kernel {
            descriptors: 0,
            buffers: vec![
                buffer(16, 4, Access::ReadWrite),
                buffer(16, 2, Access::Read),
                buffer(4, 4, Access::Write),
            ],
            lengths: Some(Field {
                offset: 16,
                element: 8,
                count: 4,
            }),
            scalars: Some(Field {
                offset: 0,
                element: 4,
                count: 2,
            }),
        };
        assert_eq!(Kernel::parse(ADD).unwrap(), expected);
    }

    /// The same in CubeCL 0.11.
    const SCALE: &str = "
struct info_st {
    uint32_t scalars_usize[6];uint32_t static_meta[6];
};
extern \"C\" __global__ void __launch_bounds__(256)  scale_924b5d82(float_4 * const __restrict__ v2, float const* const __restrict__ v7, __half * const __restrict__ v9, uint32_t const* const __restrict__ dynamic_meta_v131, __grid_constant__ info_st const info_v32) {
float_4 * const v24 = &v2[v74];
float_4 const v25 = *v24;
*v24 = v51;
__half * const v26 = &v9[v74];
*v26 = v52;
}";

    #[test]
    fn the_source_of_cubecl_0_11_is_read_as_well() {
        let kernel = Kernel::parse(SCALE).unwrap();
        let found = kernel.buffers.iter().map(|it| (it.unit, it.access));
        let expected = [
            (16, Access::ReadWrite),
            (4, Access::Read),
            (2, Access::Write),
        ];
        assert!(found.eq(expected), "{kernel:?}");
        let lengths = Field {
            offset: 24,
            element: 4,
            count: 6,
        };
        assert_eq!(kernel.lengths, Some(lengths));
    }

    #[test]
    fn an_unknown_type_is_named() {
        let source = ADD.replace("float* buffer_2", "quad* buffer_2");
        let error = Kernel::parse(&source).unwrap_err().to_string();
        assert_eq!(error, "unknown type `quad`");
    }
}
