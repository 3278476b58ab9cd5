//! Every sourced number of a cost model by its path: what validation checks and what reports list.

use super::device::{DeviceModel, LinkModel};
use super::error::ProfileError;
use super::evidence::{Evidence, Sourced};

/// One sourced number of a cost model.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<'a> {
    /// Where it stands, e.g. `network.bandwidth`.
    pub path: String,
    /// In the unit of the field (bytes, bytes/s, FLOP/s, seconds, shares); the smallest side for tiles.
    pub value: f64,
    pub evidence: Evidence,
    pub source: &'a str,
    range: Range,
}

/// What a field may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Range {
    Positive,
    NotNegative,
    /// More than 0, at most 1.
    Share,
    AtLeastOne,
}

impl Range {
    fn holds(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Positive => value > 0.0,
                Self::NotNegative => value >= 0.0,
                Self::Share => value > 0.0 && value <= 1.0,
                Self::AtLeastOne => value >= 1.0,
            }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Positive => "a finite number above 0",
            Self::NotNegative => "a finite number of at least 0",
            Self::Share => "a share above 0 and at most 1",
            Self::AtLeastOne => "a finite number of at least 1",
        }
    }
}

impl DeviceModel {
    /// All sourced numbers, in the order of the file.
    pub fn fields(&self) -> Vec<Field<'_>> {
        use Range::{AtLeastOne, NotNegative, Positive, Share};
        let mut fields = Vec::new();
        fields.push(field("memory", &self.memory, |bytes| bytes.0 as f64, Positive));
        fields.push(field("memory_bandwidth", &self.memory_bandwidth, |rate| rate.0, Positive));
        fields.push(field("multiprocessors", &self.multiprocessors, |count| f64::from(*count), AtLeastOne));
        let peaks = [
            ("peak.fp64", Some(&self.peak.fp64)),
            ("peak.fp32", Some(&self.peak.fp32)),
            ("peak.bf16", self.peak.bf16.as_ref()),
            ("peak.fp16", self.peak.fp16.as_ref()),
            ("peak.fp8", self.peak.fp8.as_ref()),
            ("peak.tf32", self.peak.tf32.as_ref()),
        ];
        for (path, peak) in peaks {
            fields.extend(peak.map(|peak| field(path, peak, |rate| rate.0, Positive)));
        }
        fields.push(share("gemm.efficiency", &self.gemm.efficiency));
        fields.push(share("gemm.efficiency_fp8", &self.gemm.efficiency_fp8));
        let single = self.gemm.efficiency_fp32.as_ref();
        fields.extend(single.map(|single| share("gemm.efficiency_fp32", single)));
        let half_intensity = &self.gemm.half_intensity;
        fields.push(field("gemm.half_intensity", half_intensity, |outputs| *outputs, NotNegative));
        let unaligned = self.gemm.unaligned_share.as_ref();
        fields.extend(unaligned.map(|unaligned| share("gemm.unaligned_share", unaligned)));
        let smallest_side = |tiles: &Vec<(u32, u32)>| {
            tiles.iter().map(|&(rows, columns)| f64::from(rows.min(columns))).reduce(f64::min).unwrap_or(0.0)
        };
        fields.push(field("gemm.tiles", &self.gemm.tiles, smallest_side, AtLeastOne));
        fields.push(field("gemm.half_depth", &self.gemm.half_depth, |depth| *depth, NotNegative));
        fields.push(share("attention.forward_efficiency", &self.attention.forward_efficiency));
        fields.push(share("attention.backward_efficiency", &self.attention.backward_efficiency));
        let older = self.attention.older_kernels.as_ref();
        fields.extend(older.map(|older| share("attention.older_kernels", older)));
        let halves = [
            ("attention.half_keys", self.attention.half_keys.as_ref()),
            ("attention.half_head", self.attention.half_head.as_ref()),
        ];
        for (path, half) in halves {
            fields.extend(half.map(|half| field(path, half, |size| *size, NotNegative)));
        }
        fields.push(share("memory_bound.efficiency", &self.memory_bound.efficiency));
        for (kind, rates) in &self.kernels {
            let types =
                [("fp32", Some(&rates.fp32)), ("fp64", rates.fp64.as_ref()), ("bf16", rates.bf16.as_ref())];
            for (element, rate) in types {
                let path = format!("kernels.{}.{element}", kind.name());
                fields.extend(rate.map(|rate| field(&path, rate, |rate| rate.0, Positive)));
            }
        }
        if let Some(cores) = &self.cores {
            fields.push(field("cores.packing", &cores.packing, |rate| rate.0, Positive));
            let tile = &cores.attention_tile;
            fields.push(field("cores.attention_tile", tile, |tokens| f64::from(*tokens), AtLeastOne));
            fields.push(field("cores.score_time", &cores.score_time, |time| time.0, NotNegative));
            let backward = &cores.score_time_backward;
            fields.push(field("cores.score_time_backward", backward, |time| time.0, NotNegative));
            fields.push(field("cores.effective", &cores.effective, |count| *count, AtLeastOne));
            fields.push(field("cores.serial_share", &cores.serial_share, |share| *share, NotNegative));
            fields.push(field("cores.dispatch", &cores.dispatch, |time| time.0, NotNegative));
            fields.push(field("cores.cache", &cores.cache, |bytes| bytes.0 as f64, NotNegative));
        }
        fields.push(field("kernel_time", &self.kernel_time, |time| time.0, NotNegative));
        fields.push(field("devices_per_node", &self.devices_per_node, |count| f64::from(*count), AtLeastOne));
        link("scale_up.link", &self.scale_up.link, &mut fields);
        let span = self.scale_up.span.as_ref();
        fields.extend(span.map(|span| field("scale_up.span", span, |count| f64::from(*count), AtLeastOne)));
        link("network", &self.network, &mut fields);
        link("host_link", &self.host_link, &mut fields);
        fields.push(field("host.memory", &self.host.memory, |bytes| bytes.0 as f64, Positive));
        fields.push(field("host.memory_bandwidth", &self.host.memory_bandwidth, |rate| rate.0, Positive));
        fields.push(field("host.cores", &self.host.cores, |count| f64::from(*count), AtLeastOne));
        fields.push(share("host.optimizer_efficiency", &self.host.optimizer_efficiency));
        fields.push(share("collective_share", &self.collective_share));
        fields.push(field("reserve.context", &self.reserve.context, |bytes| bytes.0 as f64, NotNegative));
        fields.push(field(
            "reserve.communicator",
            &self.reserve.communicator,
            |bytes| bytes.0 as f64,
            NotNegative,
        ));
        fields.push(field("reserve.workspace", &self.reserve.workspace, |bytes| bytes.0 as f64, NotNegative));
        let factor = &self.reserve.allocator_factor;
        fields.push(field("reserve.allocator_factor", factor, |factor| *factor, AtLeastOne));
        // An interval is [p·(1 − u), p·(1 + u)]: above 1 it would reach below nothing.
        fields.push(field("uncertainty.time", &self.uncertainty.time, |share| *share, Share));
        fields.push(field("uncertainty.memory", &self.uncertainty.memory, |share| *share, Share));
        if let Some(machine) = &self.machine {
            fields.push(field("machine.fixed_kernel", &machine.fixed_kernel, |speed| speed.0, Positive));
        }
        fields
    }

    /// How many numbers rest on which kind of evidence, the most binding kind first.
    pub fn evidence(&self) -> Vec<(Evidence, usize)> {
        let mut counts = std::collections::BTreeMap::new();
        for field in self.fields() {
            *counts.entry(field.evidence).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// Whether every number is one that the cost formulas can use.
    pub fn validate(&self) -> Result<(), ProfileError> {
        if !(1..=2).contains(&self.version) {
            return Err(ProfileError::Version { model: self.name.clone(), version: self.version });
        }
        match self.fields().into_iter().find(|field| !field.range.holds(field.value)) {
            Some(field) => Err(ProfileError::Value {
                model: self.name.clone(),
                value: field.value.to_string(),
                rule: field.range.rule(),
                field: field.path,
            }),
            None => Ok(()),
        }
    }
}

fn field<'a, T>(path: &str, sourced: &'a Sourced<T>, number: fn(&T) -> f64, range: Range) -> Field<'a> {
    let value = number(&sourced.value);
    Field { path: path.to_owned(), value, evidence: sourced.kind, source: &sourced.source, range }
}

fn share<'a>(path: &str, sourced: &'a Sourced<f64>) -> Field<'a> {
    field(path, sourced, |share| *share, Range::Share)
}

fn link<'a>(path: &str, link: &'a LinkModel, fields: &mut Vec<Field<'a>>) {
    fields.push(field(&format!("{path}.bandwidth"), &link.bandwidth, |rate| rate.0, Range::Positive));
    fields.push(share(&format!("{path}.efficiency"), &link.efficiency));
    fields.push(field(&format!("{path}.latency"), &link.latency, |time| time.0, Range::NotNegative));
    fields.extend(link.ring_loss.as_ref().map(|loss| share(&format!("{path}.ring_loss"), loss)));
}
