//! Quantised activations: half a step off at most, exact where values are whole steps.

use super::operands::{BOTH, Outcome, Stored, run};
use crate::compare::{Random, equal};
use crate::launch::quantise;
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "errors of half a step", run: half_a_step },
    Case { name: "bytes of whole steps", run: whole_steps },
];

const GROUP: usize = 256;

fn bytes_of(bits: u32, count: usize) -> usize {
    (count * bits as usize).div_ceil(8) + count.div_ceil(GROUP) * 4
}

/// Bytes, and what comes back of them.
fn there_and_back(
    gpu: &mut Gpu,
    stored: Stored,
    bits: u32,
    values: &[f32],
) -> Result<(Vec<u8>, Vec<f32>), String> {
    let source = quantise::source(stored.types(), bits);
    let count = values.len();
    let from = stored.upload(gpu, values);
    let bytes = gpu.uninitialised::<u8>(bytes_of(bits, count));
    let back = stored.output(gpu, count);
    let size = Argument::U64(count as u64);
    let launch = quantise::quantise(count as u64);
    run(gpu, &source, &launch, &[from.argument(), Argument::Buffer(bytes), size])?;
    let launch = quantise::dequantise(count as u64);
    run(gpu, &source, &launch, &[Argument::Buffer(bytes), Argument::Buffer(back), size])?;
    Ok((gpu.download(bytes), stored.download(gpu, back)))
}

fn half_a_step(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for (stored, (bits, steps)) in
        BOTH.into_iter().flat_map(|stored| [(8, 127.0), (4, 7.0)].map(|of| (stored, of)))
    {
        for count in [1, 2, 255, 256, 257, 1001, 4096] {
            let values: Vec<f32> = random.values(count).iter().map(|&x| stored.round(3.0 * x)).collect();
            let (_, back) = there_and_back(gpu, stored, bits, &values)?;
            for (values, back) in values.chunks(GROUP).zip(back.chunks(GROUP)) {
                let most = values.iter().fold(0f32, |most, x| most.max(x.abs()));
                // What comes back as bf16 is rounded once more.
                let rounding = if stored == Stored::Bf16 { most / 256.0 } else { 0.0 };
                let bound = most / steps * 0.5001 + rounding;
                if let Some((x, back)) = values.iter().zip(back).find(|(x, back)| (*x - *back).abs() > bound)
                {
                    return Err(format!("{back} of {x} among {count} in {stored:?} by {bits} bits"));
                }
            }
        }
    }
    Ok(())
}

/// Groups of a scale of 1/4, of zeros, and of too few elements.
fn whole_steps(gpu: &mut Gpu) -> Outcome {
    for (stored, (bits, greatest)) in
        BOTH.into_iter().flat_map(|stored| [(8, 127i32), (4, 7)].map(|of| (stored, of)))
    {
        let integer = |at: usize| match at {
            0 => -greatest,
            256..512 => 0,
            512 => greatest,
            _ => (at as i32 * 5) % (2 * greatest + 1) - greatest,
        };
        let integers: Vec<i32> = (0..517).map(integer).collect();
        let values: Vec<f32> = integers.iter().map(|&integer| integer as f32 / 4.0).collect();
        let (bytes, back) = there_and_back(gpu, stored, bits, &values)?;
        equal("what comes back", &back, &values)?;
        let mut expected: Vec<u8> = match bits {
            8 => integers.iter().map(|&integer| integer as u8).collect(),
            _ => integers
                .chunks(2)
                .map(|pair| (pair[0] as u8 & 15) | (pair.get(1).map_or(0, |&high| high as u8) << 4))
                .collect(),
        };
        expected.extend([0.25f32, 0.0, 0.25].iter().flat_map(|scale| scale.to_le_bytes()));
        equal(&format!("bytes in {stored:?} by {bits} bits"), &bytes, &expected)?;
    }
    Ok(())
}
