//! Routing of a mixture of experts, where every expert is sent as many tokens as it has slots.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::routing;
use crate::launch::runs::Types;
use crate::{Argument, Launch};

pub fn entries(size: Size) -> Vec<Entry> {
    let router = size.of(
        Router { tokens: 512, experts: 64, top_k: 8, width: 256 },
        Router { tokens: 8192, experts: 64, top_k: 8, width: 2048 },
    );
    let entry = |make: fn(&mut Operands, Router) -> Work| {
        Entry::new(router.sizes(), move |gpu| make(&mut Operands::new(gpu), router))
    };
    [assign, choose, place, to_slots, from_slots, gradient].map(entry).into()
}

#[derive(Clone, Copy)]
struct Router {
    tokens: u32,
    experts: u32,
    top_k: u32,
    /// Elements of a token.
    width: u32,
}

impl Router {
    fn sizes(&self) -> String {
        let Self { tokens, experts, top_k, width } = self;
        format!("{tokens} × {width}, {top_k} of {experts} experts")
    }

    fn slots(&self) -> u32 {
        self.tokens * self.top_k / self.experts
    }

    /// Choices of all tokens, each with a slot.
    fn choices(&self) -> u64 {
        u64::from(self.tokens) * u64::from(self.top_k)
    }

    /// Bytes of a number for each token and expert.
    fn matrix(&self) -> u64 {
        4 * u64::from(self.tokens) * u64::from(self.experts)
    }

    /// Elements of all slots, with their weights.
    fn slot_elements(&self) -> u64 {
        self.choices() * u64::from(self.width + 1)
    }

    /// Choice c of token t is choice e = t · top_k + c of all: it goes to slot e / experts of expert e % experts.
    fn experts_of(&self) -> impl Iterator<Item = u32> + use<> {
        let experts = self.experts;
        (0..self.choices() as u32).map(move |choice| choice % experts)
    }

    fn slots_of(&self) -> impl Iterator<Item = u32> + use<> {
        let experts = self.experts;
        (0..self.choices() as u32).map(move |choice| choice / experts)
    }

    fn entries_of(&self) -> impl Iterator<Item = u32> + use<> {
        let (experts, slots) = (self.experts, self.slots());
        (0..experts).flat_map(move |expert| (0..slots).map(move |slot| slot * experts + expert))
    }

    /// Probabilities, those of the chosen experts with a minus sign.
    fn marked(&self, operands: &mut Operands) -> Argument {
        let mut values = vec![1.0 / self.experts as f32; (self.matrix() / 4) as usize];
        for (choice, expert) in self.experts_of().enumerate() {
            values[choice / self.top_k as usize * self.experts as usize + expert as usize] *= -1.0;
        }
        Argument::Buffer(operands.gpu.upload(&values))
    }
}

fn work(launch: Launch, arguments: Vec<Argument>, read: u64, written: u64) -> Work {
    Work { source: routing::source(Types::Bf16), launch, arguments, least: Least::of_bytes(read, written) }
}

/// In place.
fn assign(operands: &mut Operands, router: Router) -> Work {
    let Router { tokens, experts, top_k, .. } = router;
    let logits = operands.f32(router.matrix() / 4);
    let arguments = [&[logits][..], &sizes([tokens, experts, top_k])].concat();
    work(routing::assign(tokens), arguments, router.matrix(), router.matrix())
}

fn choose(operands: &mut Operands, router: Router) -> Work {
    let Router { tokens, experts, top_k, .. } = router;
    let choices = router.choices();
    let tensors = [router.marked(operands), operands.f32_result(choices), operands.f32_result(choices)];
    let arguments = [&tensors[..], &sizes([tokens, experts, top_k, 1])].concat();
    work(routing::choose(tokens), arguments, router.matrix(), 2 * 4 * choices)
}

fn place(operands: &mut Operands, router: Router) -> Work {
    let choices = router.choices();
    let written = [operands.f32_result(choices), operands.f32_result(choices)];
    let how = sizes([choices as u32, router.slots()]);
    let arguments = [&[operands.u32(router.experts_of())][..], &written, &how].concat();
    work(routing::place(router.experts), arguments, 4 * choices, 2 * 4 * choices)
}

/// With the weights of the slots.
fn to_slots(operands: &mut Operands, router: Router) -> Work {
    let Router { tokens, experts, top_k, width } = router;
    let elements = u64::from(tokens) * u64::from(width);
    let read = [operands.u32(router.entries_of()), operands.f32(router.choices()), operands.bf16(elements)];
    let written = operands.bf16_result(router.slot_elements());
    let arguments = [&read[..], &[written], &sizes([width, router.slots(), top_k, 1])].concat();
    let launch = routing::to_slots(experts, router.slots(), width);
    let numbers = 2 * 4 * router.choices();
    work(launch, arguments, numbers + 2 * elements, 2 * router.slot_elements())
}

/// The weights of the slots are not read.
fn from_slots(operands: &mut Operands, router: Router) -> Work {
    let Router { tokens, top_k, width, .. } = router;
    let elements = u64::from(tokens) * u64::from(width);
    let numbers = [operands.u32(router.experts_of()), operands.u32(router.slots_of())];
    let tensors = [operands.bf16(router.slot_elements()), operands.bf16_result(elements)];
    let how = sizes([tokens, width, router.slots(), top_k, 1]);
    let arguments = [&numbers[..], &tensors, &how].concat();
    let read = 2 * 4 * router.choices() + 2 * router.choices() * u64::from(width);
    work(routing::from_slots(tokens, width), arguments, read, 2 * elements)
}

/// Of renormalised weights: probabilities are not needed, and of the slots only the gradients of their weights.
fn gradient(operands: &mut Operands, router: Router) -> Work {
    let Router { tokens, experts, top_k, width } = router;
    let choices = router.choices();
    let read = [
        router.marked(operands),
        operands.u32(router.experts_of()),
        operands.positive(choices),
        operands.u32(router.slots_of()),
        operands.bf16(router.slot_elements()),
    ];
    let written = operands.f32_result(router.matrix() / 4);
    let how = sizes([tokens, experts, width, router.slots(), top_k, 1]);
    let arguments = [&read[..], &[written], &how].concat();
    work(routing::gradient(tokens), arguments, (3 * 4 + 2) * choices, router.matrix())
}
