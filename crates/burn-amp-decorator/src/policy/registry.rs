//! One context for each configuration source, backend and device: made at first use, never replaced, never freed.

use std::{
    any::{Any, TypeId},
    collections::{HashMap, hash_map},
    panic::Location,
    sync::LazyLock,
};

use burn_amp_core::Config;
use burn_amp_kernels::AmpBackend;
use burn_backend::{Backend, DeviceId, DeviceOps};
use parking_lot::RwLock;

use super::{
    context::Context,
    source::{ConfigSource, InForceBy, SetupError},
};
use crate::{
    loss_scale::{AnyScaling, DeviceLossScale},
    warn::See,
};

/// A configuration source and a backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Owner {
    source: TypeId,
    backend: TypeId,
}

impl Owner {
    fn of<P: ConfigSource, B: Backend>() -> Self {
        Self {
            source: P::key(),
            backend: TypeId::of::<B>(),
        }
    }
}

type Contexts = HashMap<(Owner, DeviceId), InForce>;

/// A context in force.
#[derive(Clone, Copy)]
struct InForce {
    context: &'static (dyn Any + Send + Sync),
    by: InForceBy,
}

/// The contexts in force. They are looked up where no tensor operand points to its context, as when a tensor is
/// created.
static CONTEXTS: LazyLock<RwLock<Contexts>> = LazyLock::new(Default::default);

/// The loss scales last loaded from a checkpoint, kept for devices that are used later.
static LOADED: LazyLock<RwLock<HashMap<Owner, Vec<DeviceLossScale>>>> =
    LazyLock::new(Default::default);

impl<B: AmpBackend> Context<B> {
    /// Returns the context in force, made from the source's configuration at first use.
    ///
    /// # Panics
    ///
    /// Panics if the configuration is wrong; [`effective_config`](crate::effective_config) returns the same error.
    pub fn of<P: ConfigSource>(device: &B::Device) -> &'static Self {
        Self::try_of::<P>(device).unwrap_or_else(|error| panic!("{error} {}", See(error.section())))
    }

    /// Returns the context in force, made from the source's configuration at first use.
    pub(crate) fn try_of<P: ConfigSource>(device: &B::Device) -> Result<&'static Self, SetupError> {
        let key = (Owner::of::<P, B>(), device.id());
        if let Some(context) = CONTEXTS.read().get(&key) {
            return Ok(Self::downcast(context.context));
        }
        // Reading a configuration is slow and may fail, so no lock is held meanwhile.
        let new = Self::resumed(P::config()?, device, key.0)?;
        let mut contexts = CONTEXTS.write();
        let in_force = contexts
            .entry(key)
            .or_insert_with(|| new.put_in_force(device, InForceBy::FirstUse));
        Ok(Self::downcast(in_force.context))
    }

    /// Puts `config` in force instead of the source's configuration. `place` calls it.
    pub(crate) fn configure<P: ConfigSource>(
        device: &B::Device,
        config: Config,
        place: &'static Location<'static>,
    ) -> Result<&'static Self, SetupError> {
        let key = (Owner::of::<P, B>(), device.id());
        let new = Self::resumed(config, device, key.0)?;
        match CONTEXTS.write().entry(key) {
            hash_map::Entry::Occupied(entry) => Err(SetupError::InForce {
                device: format!("{device:?}"),
                by: entry.get().by,
            }),
            hash_map::Entry::Vacant(entry) => {
                let new = new.put_in_force(device, InForceBy::Configure(place));
                Ok(Self::downcast(entry.insert(new).context))
            }
        }
    }

    /// Makes a context whose loss scale continues from the last checkpoint that was loaded.
    fn resumed(config: Config, device: &B::Device, owner: Owner) -> Result<Self, SetupError> {
        let new = Self::new(config, device)?;
        if let Some(records) = LOADED.read().get(&owner) {
            load_from(&new.shared_scaling, records, device.id());
        }
        Ok(new)
    }

    fn put_in_force(self, device: &B::Device, by: InForceBy) -> InForce {
        self.announce(device);
        if self.policy.compute().is_low() {
            B::prepare(device);
        }
        InForce {
            context: Box::leak(Box::new(self)),
            by,
        }
    }
}

impl<B: Backend> Context<B> {
    /// Returns the contexts of the configuration source `P` on all devices, with the devices.
    pub fn on_all_devices<P: ConfigSource>() -> Vec<(DeviceId, &'static Self)> {
        let owner = Owner::of::<P, B>();
        let contexts = CONTEXTS.read();
        let of_owner = contexts.iter().filter(|((of, _), _)| *of == owner);
        let mut contexts: Vec<_> = of_owner
            .map(|((_, device), context)| (*device, Self::downcast(context.context)))
            .collect();
        contexts.sort_by_key(|(device, _)| (device.type_id, device.index_id));
        contexts
    }

    /// Returns the loss scales of the configuration source `P` on all devices, as this thread uses them.
    pub fn loss_scales<P: ConfigSource>() -> Vec<DeviceLossScale> {
        let contexts = Self::on_all_devices::<P>().into_iter();
        contexts
            .map(|(device, context)| DeviceLossScale {
                device_type: device.type_id,
                device_index: device.index_id.into(),
                loss_scale: context.scaling().record(),
            })
            .collect()
    }

    /// Sets the loss scales of the configuration source `P` on all devices, including devices that are used later.
    ///
    /// A device without a record of its own gets the first record. A thread that has loss scales of its own sets those
    /// only.
    pub fn load_loss_scales<P: ConfigSource>(records: Vec<DeviceLossScale>) {
        let mut loaded = LOADED.write();
        let contexts = Self::on_all_devices::<P>();
        let own = contexts
            .iter()
            .any(|(_, context)| context.has_own_loss_scale());
        for (device, context) in contexts {
            if !own || context.has_own_loss_scale() {
                load_from(context.scaling(), &records, device);
            }
        }
        if !own {
            loaded.insert(Owner::of::<P, B>(), records);
        }
    }

    fn downcast(context: &'static (dyn Any + Send + Sync)) -> &'static Self {
        context
            .downcast_ref()
            .expect("the key names the backend, so the context is the backend's")
    }
}

/// Continues from the record of a device, or else from the first record.
fn load_from(scaling: &dyn AnyScaling, records: &[DeviceLossScale], device: DeviceId) {
    let own = records.iter().find(|record| record.is_of(device));
    if let Some(record) = own.or(records.first()) {
        scaling.load(record.loss_scale);
    }
}
