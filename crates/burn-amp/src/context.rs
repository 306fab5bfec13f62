//! The policy and the loss scale in force on one device.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{
        LazyLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use burn_amp_core::{Compute, Config, ConfigError, Dtype, Policy, Preset};
use burn_backend::{Backend, DTypeUsage, DeviceId, DeviceOps};

use crate::{
    LossScaleRecord,
    deferred::Deferred,
    dtype,
    graph::AmpBackend,
    leaf::Leaves,
    optim::DeviceLossScale,
    scaler::{DeviceScale, Scaler},
};

/// Where a policy comes from.
///
/// Implement it for a marker type of your own to have several policies in one process:
///
/// ```
/// use burn_amp::{Amp, Compute, Config, ConfigError, PolicySource};
///
/// struct InBf16;
///
/// impl PolicySource for InBf16 {
///     fn config() -> Result<Config, ConfigError> {
///         Ok(Config { compute: Compute::Bf16, ..Config::default() })
///     }
/// }
///
/// type B = Amp<burn::backend::Flex, InBf16>;
/// ```
pub trait PolicySource: Send + Sync + 'static {
    /// The configuration, read once per device at first use.
    fn config() -> Result<Config, ConfigError>;
}

/// `amp.toml` and the `BURN_AMP_*` variables over the defaults, see [`Config::load`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FromFile;

impl PolicySource for FromFile {
    fn config() -> Result<Config, ConfigError> {
        Config::load()
    }
}

/// Why a policy cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The configuration itself is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device cannot compute in the dtype that was asked for.
    #[error("compute: {device} cannot store and compute in {compute}; it can in: {supported}")]
    UnsupportedDtype {
        /// The device.
        device: String,
        /// The dtype that was asked for.
        compute: Dtype,
        /// The dtypes that it supports.
        supported: String,
    },
    /// A policy is in force on this device already, and is never changed.
    #[error("a policy is in force on {device} already; configure before the first tensor is made")]
    InForce {
        /// The device.
        device: String,
    },
}

/// What burn-amp keeps for one policy source, backend and device.
#[derive(Debug)]
pub struct Context<B: Backend> {
    source: TypeId,
    pub(crate) policy: Policy,
    pub(crate) config: Config,
    pub(crate) scaler: Scaler,
    /// The loss scale on the device; only with `loss_scale.sync = false`.
    pub(crate) deferred: Deferred<B>,
    pub(crate) leaves: Leaves<B>,
    /// Backward passes so far.
    passes: AtomicU64,
}

type Key = (TypeId, TypeId, DeviceId);

/// One entry per policy source, backend and device: bounded, written once, never removed.
static CONTEXTS: LazyLock<RwLock<HashMap<Key, &'static (dyn Any + Send + Sync)>>> =
    LazyLock::new(Default::default);

/// What [`Context::resume`] was last given, by policy source and backend.
static RESUMED: LazyLock<RwLock<Resumed>> = LazyLock::new(Default::default);

type Resumed = HashMap<(TypeId, TypeId), Vec<DeviceLossScale>>;

impl<B: Backend> Context<B> {
    /// The context in force, made from the source's configuration at first use.
    ///
    /// # Panics
    ///
    /// If the configuration is wrong; [`init`](crate::init) gives the same error as a value.
    pub(crate) fn of<P: PolicySource>(device: &B::Device) -> &'static Self {
        Self::try_of::<P>(device).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_of<P: PolicySource>(device: &B::Device) -> Result<&'static Self, SetupError> {
        let key = Self::key::<P>(device);
        let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(&key) {
            return Ok(Self::downcast(*context));
        }
        drop(contexts);

        let new = Self::new::<P>(P::config()?, device)?;
        let mut contexts = CONTEXTS.write().unwrap_or_else(PoisonError::into_inner);
        let context = *contexts.entry(key).or_insert_with(|| {
            new.announce(device);
            Box::leak(Box::new(new))
        });
        Ok(Self::downcast(context))
    }

    /// Puts `config` in force instead of the source's configuration.
    pub(crate) fn configure<P: PolicySource>(
        device: &B::Device,
        config: Config,
    ) -> Result<&'static Self, SetupError> {
        let new = Self::new::<P>(config, device)?;
        let mut contexts = CONTEXTS.write().unwrap_or_else(PoisonError::into_inner);
        let entry = match contexts.entry(Self::key::<P>(device)) {
            std::collections::hash_map::Entry::Occupied(_) => {
                return Err(SetupError::InForce {
                    device: format!("{device:?}"),
                });
            }
            std::collections::hash_map::Entry::Vacant(entry) => entry,
        };
        new.announce(device);
        Ok(Self::downcast(*entry.insert(Box::leak(Box::new(new)))))
    }

    fn key<P: PolicySource>(device: &B::Device) -> Key {
        (TypeId::of::<P>(), TypeId::of::<B>(), device.id())
    }

    fn downcast(context: &'static (dyn Any + Send + Sync)) -> &'static Self {
        context
            .downcast_ref()
            .expect("the key names the backend, so the context is the backend's")
    }

    /// The contexts of the same policy source and backend on all devices, this one first.
    pub(crate) fn on_all_devices(&'static self) -> Vec<&'static Self> {
        let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
        let others = contexts
            .iter()
            .filter(|((source, backend, _), _)| {
                (*source, *backend) == (self.source, TypeId::of::<B>())
            })
            .map(|(_, context)| Self::downcast(*context))
            .filter(|other| !std::ptr::eq(*other, self));
        std::iter::once(self).chain(others).collect()
    }

    /// The loss scales of the policy source `P` on all devices.
    pub(crate) fn records<P: PolicySource>() -> Vec<DeviceLossScale> {
        let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
        let mut records: Vec<_> = contexts
            .iter()
            .filter(|((source, backend, _), _)| {
                (*source, *backend) == (TypeId::of::<P>(), TypeId::of::<B>())
            })
            .map(|((_, _, device), context)| DeviceLossScale {
                device_type: device.type_id,
                device_index: device.index_id.into(),
                loss_scale: Self::downcast(*context).record(),
            })
            .collect();
        records.sort_by_key(|record| (record.device_type, record.device_index));
        records
    }

    /// Sets the loss scales of the policy source `P` on all devices, also on those that are used later.
    ///
    /// A device that has no record gets the first device's.
    pub(crate) fn resume<P: PolicySource>(records: Vec<DeviceLossScale>) {
        let mut resumed = RESUMED.write().unwrap_or_else(PoisonError::into_inner);
        let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
        for ((source, backend, device), context) in contexts.iter() {
            if (*source, *backend) == (TypeId::of::<P>(), TypeId::of::<B>()) {
                Self::downcast(*context).resume_from(&records, *device);
            }
        }
        resumed.insert((TypeId::of::<P>(), TypeId::of::<B>()), records);
    }

    fn resume_from(&self, records: &[DeviceLossScale], device: DeviceId) {
        let own = records.iter().find(|record| record.is_of(device));
        if let Some(record) = own.or(records.first()) {
            self.load(record.loss_scale);
        }
    }

    fn new<P: PolicySource>(config: Config, device: &B::Device) -> Result<Self, SetupError> {
        config.validate()?;
        let compute = compute::<B>(&config, device)?;
        let policy = match config.preset {
            Preset::O0 | Preset::O1 | Preset::O2 => Policy::new(compute, &config.ops),
            Preset::O3 => Policy::all_low(compute, &config.ops),
        };
        let new = Self {
            source: TypeId::of::<P>(),
            policy,
            scaler: Scaler::new(config.loss_scale.scaling(compute)),
            deferred: Deferred::new(),
            leaves: Leaves::new(),
            passes: AtomicU64::new(0),
            config,
        };
        let resumed = RESUMED.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(records) = resumed.get(&(TypeId::of::<P>(), TypeId::of::<B>())) {
            new.resume_from(records, device.id());
        }
        Ok(new)
    }

    /// The number of the backward pass that is to come.
    pub(crate) fn pass(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Counts a backward pass.
    pub(crate) fn count_pass(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// The configuration with the compute dtype that it came to on this device.
    fn effective(&self) -> Config {
        Config {
            compute: match self.policy.compute() {
                Dtype::BF16 => Compute::Bf16,
                Dtype::F16 => Compute::F16,
                Dtype::F64 | Dtype::F32 | Dtype::Flex32 => Compute::F32,
            },
            ..self.config.clone()
        }
    }

    /// Says once what is in force, and when it cannot help.
    fn announce(&self, device: &B::Device) {
        let compute = self.policy.compute();
        let backend = B::name(device);
        tracing::info!("burn-amp: {backend} on {device:?} computes in {compute}");
        if let (Preset::O2 | Preset::O3, true) = (self.config.preset, compute.is_low()) {
            tracing::info!(
                "burn-amp: preset {}: `burn_amp::cast_params(model)` stores its parameters in {compute}; step them with \
                 `AmpOptimizer`",
                self.config.preset
            );
        }
        if compute.is_low() || self.config.preset == Preset::O0 {
            return;
        }
        if self.config.compute == Compute::Auto {
            tracing::warn!(
                "burn-amp: {device:?} accelerates neither bf16 nor f16, so everything stays in f32 and burn-amp saves \
                 nothing here; `compute = \"bf16\"` or `compute = \"f16\"` in amp.toml lowers all the same"
            );
        }
    }
}

impl<B: Backend> DeviceScale for Context<B> {
    fn scaler(&self) -> &Scaler {
        &self.scaler
    }

    fn pending(&self) -> u64 {
        self.deferred.pending()
    }

    fn settle(&self) {
        self.deferred.settle(&self.scaler);
    }

    fn record(&self) -> LossScaleRecord {
        self.settle();
        self.scaler.record()
    }

    fn load(&self, record: LossScaleRecord) {
        self.settle();
        self.scaler.load(record);
        self.deferred.reset();
    }
}

/// The compute dtype of a configuration on a device.
fn compute<B: Backend>(config: &Config, device: &B::Device) -> Result<Dtype, SetupError> {
    let accelerates = |dtype| {
        let usage = B::dtype_usage(device, dtype::to_burn(dtype));
        usage.is_superset(DTypeUsage::general() | DTypeUsage::Accelerated)
    };
    let supports = |dtype: &Dtype| B::supports_dtype(device, dtype::to_burn(*dtype));

    let compute = match (config.preset, config.compute) {
        (Preset::O0, _) | (_, Compute::F32) => return Ok(Dtype::F32),
        (_, Compute::Auto) => {
            let low = [Dtype::BF16, Dtype::F16];
            return Ok(low
                .into_iter()
                .find(|d| accelerates(*d))
                .unwrap_or(Dtype::F32));
        }
        (_, Compute::Bf16) => Dtype::BF16,
        (_, Compute::F16) => Dtype::F16,
    };
    match supports(&compute) {
        true => Ok(compute),
        false => Err(SetupError::UnsupportedDtype {
            device: format!("{} on {device:?}", B::name(device)),
            compute,
            supported: [Dtype::F32, Dtype::F16, Dtype::BF16]
                .iter()
                .filter(|dtype| supports(dtype))
                .map(|dtype| dtype.name())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

/// Puts the policy of backend `A`'s source in force on `device`, and returns the configuration with the compute dtype
/// that it came to.
///
/// Calling it is optional: the first tensor on a device does the same, but panics where this returns the error.
///
/// # Errors
///
/// If the configuration is wrong or the device cannot compute in the dtype asked for.
pub fn init<A: AmpBackend>(device: &A::Device) -> Result<Config, SetupError> {
    Context::<A::Plain>::try_of::<A::Source>(device).map(Context::effective)
}

/// Puts `config` in force on `device` for backend `A`, in the place of what its source says.
///
/// # Errors
///
/// If the configuration is wrong, the device cannot compute in the dtype asked for, or a policy is in force already:
/// it is never changed after the first tensor.
///
/// ```
/// use burn::backend::Flex;
/// use burn_amp::{Amp, Autodiff, Compute, Config};
///
/// type B = Autodiff<Amp<Flex>>;
///
/// let config = Config { compute: Compute::Bf16, ..Config::default() };
/// burn_amp::configure::<B>(&Default::default(), config)?;
/// # Ok::<(), burn_amp::SetupError>(())
/// ```
pub fn configure<A: AmpBackend>(device: &A::Device, config: Config) -> Result<Config, SetupError> {
    Context::<A::Plain>::configure::<A::Source>(device, config).map(Context::effective)
}
