//! A [`ListStep`] as a kernel over flat lists of tensors. The kernel is the step with `()` in place of each tensor.

#[cfg(feature = "cubecl")]
use super::launch;
use super::{ListStep, Listed, Master, Stepped, reference::reference};
use crate::prelude::*;

impl<F, I> ListStep<F, I> {
    /// Replaces all tensors, in the order in which the kernel has them.
    fn map<G, J>(
        self,
        mut float: impl FnMut(F) -> G,
        mut int: impl FnMut(I) -> J,
    ) -> ListStep<G, J> {
        let Self {
            rule,
            lr,
            scaled_by,
            unless_overflowed,
            clip,
            parameters,
        } = self;
        ListStep {
            rule,
            lr,
            scaled_by: scaled_by.map(&mut float),
            unless_overflowed: unless_overflowed.map(&mut float),
            clip: clip.map(&mut float),
            parameters: parameters
                .into_iter()
                .map(|listed| listed.map(&mut float, &mut int))
                .collect(),
        }
    }

    /// Takes the tensors out.
    pub(super) fn apart<B>(self) -> (ListStep<(), ()>, Tensors<F, I, B>) {
        let mut tensors = Tensors::from([]);
        let step = self.map(
            |float| tensors.floats.push(float),
            |int| tensors.ints.push(int),
        );
        (step, tensors)
    }
}

impl<F, I> Listed<F, I> {
    fn map<G, J>(self, mut float: impl FnMut(F) -> G, mut int: impl FnMut(I) -> J) -> Listed<G, J> {
        let moments = self.moments.into_iter();
        Listed {
            gradient: float(self.gradient),
            parameter: float(self.parameter),
            master: self.master.map(&mut float, &mut int),
            moments: moments
                .map(|moment| moment.map(&mut float, &mut int))
                .collect(),
            factor: self.factor,
            key: self.key,
            rounds_stochastically: self.rounds_stochastically,
            time: self.time,
            low: self.low,
        }
    }

    /// What a step leaves of a parameter. `copy` makes the copy in low precision.
    pub(super) fn stepped(self, copy: impl FnOnce(&F, FloatDType) -> F) -> Stepped<F, I> {
        Stepped {
            low: self.low.map(|low| copy(&self.parameter, low)),
            parameter: self.parameter,
            master: self.master,
            moments: self.moments,
        }
    }
}

impl<F, I> Stepped<F, I> {
    /// Replaces all tensors, in the order in which the kernel returns them.
    pub(super) fn map<G, J>(
        self,
        mut float: impl FnMut(F) -> G,
        mut int: impl FnMut(I) -> J,
    ) -> Stepped<G, J> {
        let moments = self.moments.into_iter();
        Stepped {
            parameter: float(self.parameter),
            master: self.master.map(&mut float, &mut int),
            moments: moments
                .map(|moment| moment.map(&mut float, &mut int))
                .collect(),
            low: self.low.map(&mut float),
        }
    }
}

/// Takes the tensors out of results.
pub(super) fn flat<F, I, B>(stepped: impl IntoIterator<Item = Stepped<F, I>>) -> Tensors<F, I, B> {
    let mut tensors = Tensors::from([]);
    for stepped in stepped {
        stepped.map(
            |float| tensors.floats.push(float),
            |int| tensors.ints.push(int),
        );
    }
    tensors
}

/// The next tensor of a list.
pub(super) fn next<T>(tensors: &mut impl Iterator<Item = T>) -> T {
    tensors
        .next()
        .expect("there are as many tensors as were taken out")
}

impl ListStep<(), ()> {
    /// Puts tensors of the same or of another backend in.
    fn with<F, I, B>(&self, tensors: Tensors<F, I, B>) -> ListStep<F, I> {
        let (mut floats, mut ints) = (tensors.floats.into_iter(), tensors.ints.into_iter());
        let step = self.clone();
        step.map(|()| next(&mut floats), |()| next(&mut ints))
    }

    /// Puts the tensors of a result together.
    pub(super) fn results_of<F, I, B>(self, tensors: Tensors<F, I, B>) -> Vec<Stepped<F, I>> {
        let (mut floats, mut ints) = (tensors.floats.into_iter(), tensors.ints.into_iter());
        let parameters = self.parameters.into_iter();
        let stepped = parameters.map(|listed| {
            let stepped = listed.stepped(|(), _| ());
            stepped.map(|()| next(&mut floats), |()| next(&mut ints))
        });
        stepped.collect()
    }
}

impl Kernel for ListStep<(), ()> {
    const NAME: &'static str = "burn_amp::optimizer_step";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let parameters = self.with(operands.clone()).parameters.into_iter();
        let copy = |(shape, _): &Meta, low: FloatDType| (shape.clone(), low.into());
        flat(parameters.map(|listed| listed.stepped(copy)))
    }

    /// A master in F32 is read in place of the parameter.
    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        let mut step = self.with(operands).map(Some, Some);
        for listed in &mut step.parameters {
            if let Master::F32(_) = listed.master {
                listed.parameter = None;
            }
        }
        let (_, Tensors { floats, ints, .. }) = step.apart::<Meta>();
        let floats: Vec<_> = floats.into_iter().flatten().collect();
        Tensors::from(floats).with_ints(ints.into_iter().flatten())
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        flat(reference::<B>(self.with(operands)))
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Ok(flat(launch::optimizer_step::<R>(self.with(operands))))
    }
}
