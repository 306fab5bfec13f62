//! What a rule means to the kernel: its code, and its numbers.

use burn_cubecl::CubeRuntime;

use super::{AdamRule, Rule, SgdRule, code::Code, element::NumbersLaunch};

impl<R: CubeRuntime> NumbersLaunch<R> {
    fn of_adam(rule: &AdamRule, lr: f64, decay: f32) -> Self {
        Self::new(
            lr as f32,
            rule.beta_1,
            1.0 - rule.beta_1,
            rule.beta_2,
            1.0 - rule.beta_2,
            rule.epsilon,
            decay,
        )
    }

    pub(super) fn of(rule: &Rule, lr: f64) -> Self {
        match rule {
            Rule::Adam(adam) => Self::of_adam(adam, lr, adam.penalty.unwrap_or(0.0)),
            Rule::AdamW(adam, decay) => {
                let rate = lr * f64::from(decay.rate);
                let decay = if decay.cautious { rate } else { 1.0 - rate };
                Self::of_adam(adam, lr, decay as f32)
            }
            Rule::Sgd(SgdRule { penalty, momentum }) => {
                let momentum = momentum.unwrap_or_default();
                Self::new(
                    lr as f32,
                    momentum.momentum as f32,
                    (1.0 - momentum.dampening) as f32,
                    0.0,
                    0.0,
                    0.0,
                    penalty.unwrap_or(0.0),
                )
            }
        }
    }
}

impl Code {
    /// The code for a rule; what depends on the tensors is off.
    pub(super) fn of(rule: &Rule, lr: f64) -> Self {
        let nothing = Self {
            count: rule.moments(),
            ..Self::default()
        };
        match rule {
            Rule::Adam(adam) => Self {
                is_adam: true,
                amsgrad: adam.amsgrad,
                decays: adam.penalty.is_some(),
                ..nothing
            },
            Rule::AdamW(adam, decay) => {
                let decays = lr * f64::from(decay.rate) != 0.0;
                Self {
                    is_adam: true,
                    is_decoupled: true,
                    amsgrad: adam.amsgrad,
                    decays,
                    is_cautious: decays && decay.cautious,
                    ..nothing
                }
            }
            Rule::Sgd(sgd) => Self {
                decays: sgd.penalty.is_some(),
                has_momentum: sgd.momentum.is_some(),
                nesterov: sgd.momentum.is_some_and(|momentum| momentum.nesterov),
                ..nothing
            },
        }
    }

    /// The buffers that the kernel binds per parameter.
    pub(super) fn buffers(&self) -> usize {
        let others = [self.has_master, self.offset_bits > 0, self.has_low];
        2 + self.count + others.into_iter().filter(|is_bound| *is_bound).count()
    }
}

/// The corrections of one parameter at a step.
pub(super) fn corrections(rule: &Rule, time: i32) -> [f32; 2] {
    match rule {
        Rule::Adam(adam) => {
            let [first, second] = adam.corrections(time);
            let second = second.sqrt();
            [second / first, adam.epsilon * second]
        }
        Rule::AdamW(adam, _) => adam.corrections(time),
        Rule::Sgd(_) => [1.0, 1.0],
    }
}
