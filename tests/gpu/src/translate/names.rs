//! What the names in a kernel mean: registers by scope, variables by address, parameters by offset.

use crate::ptx::{Space, Type, Variable};
use std::collections::HashMap;

#[derive(Default)]
pub struct Names {
    scopes: Vec<HashMap<String, Type>>,
    variables: HashMap<String, (Space, u64)>,
    pub parameters: HashMap<String, u64>,
}

impl Names {
    pub fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub fn close(&mut self) {
        self.scopes.pop();
    }

    pub fn depth(&self) -> usize {
        self.scopes.len()
    }

    pub fn declare(&mut self, register: &str, kind: Type) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(register.to_owned(), kind);
        }
    }

    pub fn place(&mut self, variable: &Variable, address: u64) {
        self.variables.insert(variable.name.clone(), (variable.space, address));
    }

    pub fn kind(&self, register: &str) -> Option<Type> {
        self.scopes.iter().rev().find_map(|scope| scope.get(register)).copied()
    }

    /// The address within the variable's own space; `.global` addresses are generic ones.
    pub fn address(&self, variable: &str) -> Option<u64> {
        let &(space, offset) = self.variables.get(variable)?;
        Some(if space == Space::Global { generic(Space::Global) + offset } else { offset })
    }
}

/// The number of a space, as the emulator's memory counts them.
pub fn number(space: Space) -> u64 {
    match space {
        Space::Generic => 0,
        Space::Global => 1,
        Space::Shared => 2,
        Space::Local => 3,
        Space::Constant => 4,
        Space::Parameter => 5,
    }
}

/// Where a space begins among the generic addresses.
pub fn generic(space: Space) -> u64 {
    number(space) << 36
}

/// A name that C++ takes: compilers on x86 allow the dollar.
pub fn identifier(name: &str) -> String {
    name.replace('%', "$").replace('.', "$$")
}

pub fn register(name: &str) -> String {
    format!("r_{}", identifier(name))
}

/// The special registers, all of 32 bits.
pub fn special(name: &str) -> Option<String> {
    let axis = |axis: &str| ["x", "y", "z"].iter().position(|&known| known == axis);
    if let Some((family, which)) = name.strip_prefix('%').and_then(|name| name.split_once('.')) {
        return matches!(family, "tid" | "ntid" | "ctaid" | "nctaid")
            .then(|| axis(which).map(|axis| format!("t->{family}[{axis}]")))
            .flatten();
    }
    Some(
        match name {
            "%laneid" => "t->lane",
            "%warpid" => "t->warp",
            "%lanemask_eq" => "(1u << t->lane)",
            "%lanemask_lt" => "((1u << t->lane) - 1)",
            "%lanemask_le" => "(~0u >> (31 - t->lane))",
            "%lanemask_ge" => "(~0u << t->lane)",
            "%lanemask_gt" => "(~1u << t->lane)",
            "%dynamic_smem_size" => "t->dynamic_shared",
            "%total_smem_size" => "t->total_shared",
            "WARP_SZ" => "32u",
            _ => return None,
        }
        .to_owned(),
    )
}
