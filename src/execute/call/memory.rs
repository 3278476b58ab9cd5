//! Which memory of its own rank a call uses.

use super::{Call, Exchange, Gated, Indices, Probabilities, View};

impl Call {
    /// The views of the rank's own memory that the call reads or writes.
    pub fn views(&self) -> impl Iterator<Item = View> + use<> {
        self.operands().into_iter().flatten()
    }

    fn operands(&self) -> Vec<Option<View>> {
        let all = |views: &[View]| views.iter().copied().map(Some).collect();
        match self {
            Self::Embed { table, indices, output, .. } => vec![Some(*table), ids(indices), Some(output.view)],
            Self::EmbedGradient { indices, output_gradient, table, .. } => {
                vec![Some(*output_gradient), ids(indices), Some(*table)]
            }
            Self::Norm(call) => {
                vec![Some(call.input), call.weight, call.bias, Some(call.output), call.statistics]
            }
            Self::NormGradient(call) => vec![
                Some(call.input),
                call.weight,
                call.statistics,
                call.output_gradient,
                Some(call.input_gradient.view),
            ],
            Self::NormWeight(call) => {
                vec![Some(call.input), call.statistics, Some(call.output_gradient), Some(call.gradient.view)]
            }
            Self::Gemm(call) => {
                let [a, b] = [call.a, call.b].map(|factor| Some(factor.matrix.view));
                vec![a, b, call.bias, Some(call.output.view), Some(call.scratch)]
            }
            Self::BiasGradient { output_gradient, bias } => all(&[output_gradient.view, bias.view]),
            Self::Rotary(call) => all(&[call.data]),
            Self::CopyColumns { from, to } => all(&[from.view, to.view]),
            Self::Attention(call) => {
                let mut list = all(&[call.queries.data, call.keys_values.data, call.output.view]);
                list.extend(kept(&call.probabilities));
                list
            }
            Self::AttentionGradient(call) => {
                let mut list =
                    all(&[call.queries.data, call.keys_values.data, call.output, call.output_gradient]);
                list.extend(kept(&call.probabilities));
                list.extend([call.query_gradients.data, call.key_value_gradients.data].map(Some));
                list.push(call.scores);
                list
            }
            Self::Activation(call) => [&gated(&call.input)[..], &[Some(call.output)]].concat(),
            Self::ActivationGradient(call) => {
                [&[Some(call.output_gradient)], &gated(&call.input)[..], &gated(&call.gradient)].concat()
            }
            Self::Residual(call) => {
                vec![Some(call.stream), Some(call.branch), call.bias, Some(call.output)]
            }
            Self::Dropout { dropout, data } => all(&[dropout.scalars, *data]),
            Self::Copy { from, to }
            | Self::Add { from, to }
            | Self::Quantise { from, to, .. }
            | Self::Dequantise { from, to, .. } => all(&[*from, *to]),
            Self::Zero { to } | Self::Poison { to } | Self::SetNumber { to, .. } => all(&[*to]),
            Self::Scale { weight, data } => vec![*weight, Some(*data)],
            Self::AddScaled { weight, from, to } => vec![*weight, Some(*from), Some(*to)],
            Self::Route { logits, .. } => all(&[*logits]),
            Self::ToSlots { assigned, tokens, slots, .. }
            | Self::FromSlots { assigned, tokens, slots, .. } => all(&[*assigned, *tokens, *slots]),
            Self::RouterGradient { assigned, slots, gradient, .. } => all(&[*assigned, *slots, *gradient]),
            Self::ExpertActivation(call) => {
                vec![call.gate, Some(call.up), Some(call.input), Some(call.output)]
            }
            Self::ExpertActivationGradient(call) => {
                let mut list = all(&[call.output_gradient, call.up, call.input]);
                list.extend([call.gate, call.gate_gradient]);
                list.extend([call.up_gradient, call.input_gradient].map(Some));
                list
            }
            Self::CrossEntropy { logits, targets, statistics, .. }
            | Self::CrossEntropyGradient { logits, targets, statistics, .. } => {
                all(&[*logits, *targets, *statistics])
            }
            Self::MergeStatistics { shards, statistics } => all(&[*shards, *statistics]),
            Self::AddLoss { statistics, loss } => all(&[*statistics, *loss]),
            Self::SquaredError { values, loss, .. } => all(&[*values, *loss]),
            Self::SquaredErrorGradient { values, gradient, .. } => all(&[*values, *gradient]),
            Self::Squares { parts, squares } => {
                parts.iter().chain(std::iter::once(squares)).copied().map(Some).collect()
            }
            Self::ClipFactor { squares, clip, .. } => all(&[*squares, *clip]),
            Self::LossWeight(call) => all(&[call.of.0, call.own.0, call.weight]),
            Self::AdamW(call) => {
                let mut list = all(&[call.update.scalars, call.gradient, call.parameters]);
                list.extend(call.moments.map(Some));
                list.push(call.master);
                list
            }
            Self::Collective { exchange, .. } => exchanged(exchange).map(Some).to_vec(),
            Self::Send { from, .. } => all(&[*from]),
            Self::Receive { inbox, to, .. } => all(&[*inbox, *to]),
            Self::Check { values, .. } => all(&[*values]),
        }
    }
}

const fn ids(indices: &Indices) -> Option<View> {
    match indices {
        Indices::View(view) => Some(*view),
        Indices::List(_) => None,
    }
}

const fn kept(probabilities: &Probabilities) -> [Option<View>; 2] {
    match *probabilities {
        Probabilities::LogSumExp(view) => [Some(view), None],
        Probabilities::Whole { all, kept } => [Some(all), kept],
    }
}

const fn gated(gated: &Gated) -> [Option<View>; 2] {
    match *gated {
        Gated::No { up } => [Some(up), None],
        Gated::Apart { gate, up } => [Some(gate), Some(up)],
        Gated::Together { both, .. } => [Some(both), None],
    }
}

/// What goes out and what comes in; in place, these are the same.
const fn exchanged(exchange: &Exchange) -> [View; 2] {
    match *exchange {
        Exchange::AllReduce { data, .. } => [data, data],
        Exchange::ReduceScatter { whole, own, .. } | Exchange::AllGather { own, whole } => [own, whole],
        Exchange::ReduceScatterInPlace { whole, .. } | Exchange::AllGatherInPlace { whole } => [whole, whole],
        Exchange::AllToAll { from, to } | Exchange::Shift { from, to } | Exchange::Heads { from, to, .. } => {
            [from, to]
        }
        Exchange::SumNeighbours { data, scratch, .. } => [data, scratch],
    }
}
