//! A [`ListStep`] as a kernel over flat lists of tensors.

#[cfg(feature = "cubecl")]
use super::launch;
use super::{ListStep, Listed, Master, Moment, MomentFormat, Rule, Stepped, reference};
use crate::prelude::*;

/// What a [`ListStep`] is besides its tensors.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    rule: Rule,
    lr: f64,
    scaled_by: bool,
    unless_overflowed: bool,
    clip: bool,
    parameters: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    factor: f32,
    master: Option<MasterForm>,
    moments: Vec<MomentFormat>,
    key: u32,
    rounds_stochastically: bool,
    time: i32,
    low: Option<FloatDType>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum MasterForm {
    F32,
    Offset,
}

/// Appends a master and moments to the tensors.
fn push<B: Backend>(
    tensors: &mut TensorsOf<B>,
    master: Option<Master<B>>,
    moments: Vec<Moment<B>>,
) {
    match master {
        None => {}
        Some(Master::F32(master)) => tensors.floats.push(master),
        Some(Master::Offset(offset)) => tensors.ints.push(offset),
    }
    for moment in moments {
        match moment {
            Moment::Wide(tensor) => tensors.floats.push(tensor),
            Moment::Bf16(words) | Moment::Bits8(words) => tensors.ints.push(words),
        }
    }
}

impl Parts {
    /// Takes a step apart.
    pub(super) fn of<B: Backend>(step: ListStep<B>) -> (Self, TensorsOf<B>) {
        let ListStep {
            rule,
            lr,
            scaled_by,
            unless_overflowed,
            clip,
            parameters: listed,
        } = step;
        let mut parts = Self {
            rule,
            lr,
            scaled_by: scaled_by.is_some(),
            unless_overflowed: unless_overflowed.is_some(),
            clip: clip.is_some(),
            parameters: Vec::with_capacity(listed.len()),
        };
        let mut tensors = Tensors::from([]);
        let common = [scaled_by, unless_overflowed, clip];
        tensors.floats.extend(common.into_iter().flatten());
        for listed in listed {
            let Listed {
                parameter,
                gradient,
                factor,
                master,
                moments,
                key,
                rounds_stochastically,
                time,
                low,
            } = listed;
            parts.parameters.push(Part {
                factor,
                master: master.as_ref().map(|master| match master {
                    Master::F32(_) => MasterForm::F32,
                    Master::Offset(_) => MasterForm::Offset,
                }),
                moments: moments.iter().map(Moment::format).collect(),
                key,
                rounds_stochastically,
                time,
                low,
            });
            tensors.floats.extend([gradient, parameter]);
            push::<B>(&mut tensors, master, moments);
        }
        (parts, tensors)
    }

    /// Puts a step together, with tensors of the same or of another backend.
    pub(super) fn step<B: Backend>(&self, tensors: TensorsOf<B>) -> ListStep<B> {
        let mut floats = tensors.floats.into_iter();
        let mut ints = tensors.ints.into_iter();
        let mut next = || {
            floats
                .next()
                .expect("a step has the tensors it was made of")
        };
        let scaled_by = self.scaled_by.then(&mut next);
        let unless_overflowed = self.unless_overflowed.then(&mut next);
        let clip = self.clip.then(&mut next);
        let listed = |part: &Part| Listed {
            gradient: next(),
            parameter: next(),
            factor: part.factor,
            master: part.master(&mut next, &mut ints),
            moments: part.moments(&mut next, &mut ints),
            key: part.key,
            rounds_stochastically: part.rounds_stochastically,
            time: part.time,
            low: part.low,
        };
        ListStep {
            rule: self.rule,
            lr: self.lr,
            scaled_by,
            unless_overflowed,
            clip,
            parameters: self.parameters.iter().map(listed).collect(),
        }
    }

    /// The parameters, and where the float tensors of each begin: gradient, parameter, master, moments.
    fn places(&self) -> impl Iterator<Item = (&Part, usize)> {
        let globals = [self.scaled_by, self.unless_overflowed, self.clip];
        let mut next = globals.into_iter().filter(|is_there| *is_there).count();
        self.parameters.iter().map(move |part| {
            let at = next;
            next += 1 + part.floats();
            (part, at)
        })
    }

    /// Takes a result apart.
    pub(super) fn flatten<B: Backend>(stepped: Vec<Stepped<B>>) -> TensorsOf<B> {
        let mut tensors = Tensors::from([]);
        for stepped in stepped {
            let Stepped {
                parameter,
                master,
                moments,
                low,
            } = stepped;
            tensors.floats.push(parameter);
            push::<B>(&mut tensors, master, moments);
            tensors.floats.extend(low);
        }
        tensors
    }

    /// Puts a result together.
    pub(super) fn stepped<B: Backend>(&self, tensors: TensorsOf<B>) -> Vec<Stepped<B>> {
        let mut floats = tensors.floats.into_iter();
        let mut ints = tensors.ints.into_iter();
        let mut next = || {
            floats
                .next()
                .expect("an op returns the tensors it announced")
        };
        let stepped = |part: &Part| Stepped {
            parameter: next(),
            master: part.master(&mut next, &mut ints),
            moments: part.moments(&mut next, &mut ints),
            low: part.low.map(|_| next()),
        };
        self.parameters.iter().map(stepped).collect()
    }
}

impl Kernel for Parts {
    const NAME: &'static str = "burn_amp::optimizer_step";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let mut floats = Vec::new();
        for (part, at) in self.places() {
            let own = part.floats();
            let changed = &operands.floats[at + 1..=at + own];
            floats.extend(changed.iter().cloned());
            floats.extend(part.low.map(|low| (changed[0].0.clone(), low.into())));
        }
        Tensors::from(floats).with_ints(operands.ints.iter().cloned())
    }

    /// A master in F32 is read in place of the parameter.
    fn reads(&self, mut operands: Tensors<Meta>) -> Tensors<Meta> {
        let places = self.places().filter(|(part, _)| part.has_f32_master());
        let parameters: Vec<_> = places.map(|(_, at)| at + 1).collect();
        for at in parameters.into_iter().rev() {
            operands.floats.remove(at);
        }
        operands
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        Self::flatten::<B>(reference::<B>(self.step::<B>(operands)))
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let step = self.step::<Cube<R>>(operands);
        Ok(Self::flatten::<Cube<R>>(launch::optimizer_step(step)))
    }
}

impl Part {
    fn has_f32_master(&self) -> bool {
        self.master == Some(MasterForm::F32)
    }

    /// The number of float tensors besides the gradient.
    fn floats(&self) -> usize {
        let moments = self.moments.iter();
        let wide = moments
            .filter(|format| **format == MomentFormat::Wide)
            .count();
        1 + usize::from(self.has_f32_master()) + wide
    }

    fn master<B: Backend>(
        &self,
        float: &mut impl FnMut() -> FloatTensor<B>,
        ints: &mut impl Iterator<Item = IntTensor<B>>,
    ) -> Option<Master<B>> {
        self.master.map(|form| match form {
            MasterForm::F32 => Master::F32(float()),
            MasterForm::Offset => Master::Offset(ints.next().expect("as many offsets as forms")),
        })
    }

    fn moments<B: Backend>(
        &self,
        float: &mut impl FnMut() -> FloatTensor<B>,
        ints: &mut impl Iterator<Item = IntTensor<B>>,
    ) -> Vec<Moment<B>> {
        let formats = self.moments.iter();
        let moments = formats.map(|format| {
            let mut words = || ints.next().expect("as many tensors of words as formats");
            match format {
                MomentFormat::Wide => Moment::Wide(float()),
                MomentFormat::Bf16 => Moment::Bf16(words()),
                MomentFormat::Bits8 => Moment::Bits8(words()),
            }
        });
        moments.collect()
    }
}
