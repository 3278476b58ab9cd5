//! Of one mesh, the strategies that are likely to be good, bounded before all others.

use crate::profile::choices::Schedule;
use crate::program::state::StateRules;
use crate::search::bounding::{Bounding, Entry, Shaped};
use crate::search::pipeline_bound::More;
use crate::search::space::PassChoice;
use crate::search::state_prices::KnownPrices;
use crate::search::strategy_bound::StrategyBound;

impl Bounding<'_> {
    /// Strategies of task `index` that are likely to be good: small micro-batches, the plainest and the most sharded
    /// state.
    pub fn likely(&self, index: usize) -> Vec<Entry> {
        let space = self.space;
        let task = &space.tasks[index];
        let mut list = Vec::new();
        let mut shaped: Option<(PassChoice, Shaped)> = None;
        let mut prices = KnownPrices::default();
        for pass_choice in space.pass_choices(task) {
            if space.deadline.is_over() {
                break;
            }
            let mut strategy = space.outer(task, &pass_choice);
            let is_usual = matches!(
                pass_choice.schedule.0,
                Schedule::OneForwardOneBackward | Schedule::Interleaved | Schedule::ZeroBubbleV
            );
            if pass_choice.micro.0 > 2 || !is_usual || !space.is_legal(&strategy) {
                continue;
            }
            let shape = self.shape(&mut shaped, &pass_choice, &strategy);
            let bounds = self.strategy_bounds(&strategy, shape);
            let core = bounds.pipeline.lower_bound(&shape.load, More::default());
            for state in space.states(task, &pass_choice).0 {
                let is_usual = matches!(state.zero, 1 | 3) || !strategy.sums_gradients(&space.problem.facts);
                if state.shard != task.mesh.data || !is_usual {
                    continue;
                }
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
                let prices = prices.of((state.shard, pass_choice.numerics), &rules, || {
                    self.prices(shape, (&rules, strategy.pipeline), &self.anywhere(&strategy))
                });
                if let StrategyBound::Seconds(lower_bound) =
                    bounds.of(state.sync, &rules, &prices, 1.2 * core)
                {
                    let order = strategy.order;
                    let state = *state;
                    list.push(Entry {
                        lower_bound,
                        step: 0.0,
                        place: 0,
                        task: index,
                        pass_choice,
                        state,
                        order,
                    });
                }
            }
        }
        // The best two of each way to shard and to schedule: which of them fits is not known yet.
        list.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
        let mut seen: Vec<(u8, bool, u64, Schedule)> = Vec::new();
        list.retain(|entry| {
            let Entry { pass_choice, state, .. } = entry;
            let way = (state.zero, state.reshard, pass_choice.micro.0, pass_choice.schedule.0);
            let is_new = seen.iter().filter(|known| **known == way).count() < 2;
            seen.push(way);
            is_new
        });
        list
    }
}
