//! What a parameter is to its layer.

use std::fmt;

/// The role of a parameter in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Tokens,
    Widen,
    Positions,
    Norm,
    Query,
    Key,
    Value,
    QueryBias,
    KeyBias,
    ValueBias,
    QueryNorm,
    KeyNorm,
    QueryDown,
    QueryUp,
    QueryDownBias,
    LatentDown,
    LatentNorm,
    LatentUp,
    LatentBias,
    Sinks,
    Output,
    OutputBias,
    OutputNorm,
    ResidualNorm,
    Up,
    Down,
    UpBias,
    DownBias,
    Router,
    RouterBias,
    ExpertUp,
    ExpertDown,
    ExpertUpBias,
    ExpertDownBias,
    SharedUp,
    SharedDown,
    SharedGate,
    Narrow,
    Vocabulary,
    VocabularyBias,
}

impl Role {
    /// What it is called in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Widen => "widen",
            Self::Positions => "positions",
            Self::Norm => "norm",
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::QueryBias => "query bias",
            Self::KeyBias => "key bias",
            Self::ValueBias => "value bias",
            Self::QueryNorm => "query norm",
            Self::KeyNorm => "key norm",
            Self::QueryDown => "query down",
            Self::QueryUp => "query up",
            Self::QueryDownBias => "query down bias",
            Self::LatentDown => "latent down",
            Self::LatentNorm => "latent norm",
            Self::LatentUp => "latent up",
            Self::LatentBias => "latent bias",
            Self::Sinks => "sinks",
            Self::Output => "output",
            Self::OutputBias => "output bias",
            Self::OutputNorm => "output norm",
            Self::ResidualNorm => "residual norm",
            Self::Up => "up",
            Self::Down => "down",
            Self::UpBias => "up bias",
            Self::DownBias => "down bias",
            Self::Router => "router",
            Self::RouterBias => "router bias",
            Self::ExpertUp => "expert up",
            Self::ExpertDown => "expert down",
            Self::ExpertUpBias => "expert up bias",
            Self::ExpertDownBias => "expert down bias",
            Self::SharedUp => "shared up",
            Self::SharedDown => "shared down",
            Self::SharedGate => "shared gate",
            Self::Narrow => "narrow",
            Self::Vocabulary => "vocabulary",
            Self::VocabularyBias => "vocabulary bias",
        }
    }

    /// The matrix whose bias it is; none for what is no bias.
    pub const fn biased(self) -> Option<Self> {
        Some(match self {
            Self::QueryBias => Self::Query,
            Self::KeyBias => Self::Key,
            Self::ValueBias => Self::Value,
            Self::QueryDownBias => Self::QueryDown,
            Self::LatentBias => Self::LatentDown,
            Self::OutputBias => Self::Output,
            Self::UpBias => Self::Up,
            Self::DownBias => Self::Down,
            Self::RouterBias => Self::Router,
            Self::ExpertUpBias => Self::ExpertUp,
            Self::ExpertDownBias => Self::ExpertDown,
            Self::VocabularyBias => Self::Vocabulary,
            _ => return None,
        })
    }

    /// Whether it is a norm's weight, with its bias behind where there is one.
    pub const fn is_norm(self) -> bool {
        matches!(
            self,
            Self::Norm
                | Self::QueryNorm
                | Self::KeyNorm
                | Self::LatentNorm
                | Self::OutputNorm
                | Self::ResidualNorm
        )
    }

    /// Whether it is a vector, whatever its rows.
    pub const fn is_vector(self) -> bool {
        self.is_norm() || self.biased().is_some() || matches!(self, Self::Sinks)
    }

    /// Whether each expert has its own.
    pub const fn is_of_experts(self) -> bool {
        matches!(self, Self::ExpertUp | Self::ExpertDown | Self::ExpertUpBias | Self::ExpertDownBias)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
