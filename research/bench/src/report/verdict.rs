//! The verdict on a published figure beside ours.

use crate::experiment::Published;

/// How far ours may be from the published figure and still be called reproduced, where a claim does
/// not say: of an absolute figure in parts of it, of a ratio in parts of its logarithm, since what a
/// ratio says is how far it is from 1.
pub const ALIKE: f64 = 0.2;

/// Ratios that are nearer to 1 are comparable, which is no effect.
pub const LITTLE: f64 = 0.05;

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// A count within the distance that it asks for, or a bar that all rounds reach.
    Met,
    /// The same of a count that has gone through a formula.
    Agrees,
    /// Outside of it, or a bar that no round reaches.
    Missed,
    /// A bar that some rounds reach and some do not.
    Noise,
    /// As near as [`ALIKE`].
    Reproduced,
    /// A ratio on the same side of 1, of another size.
    SameDirection,
    /// A ratio on both sides of 1 where an effect was published.
    Undecided,
    /// Another figure, or the opposite.
    Differs,
    /// Beside one another only: nothing was published, a time of another machine, or another
    /// comparison.
    Shown,
    /// Not measured, or a time that was taken once.
    Unquoted,
}

impl ClaimVerdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Agrees => "agrees by a formula",
            Self::Missed => "missed",
            Self::Noise => "within noise",
            Self::Reproduced => "reproduced",
            Self::SameDirection => "same direction",
            Self::Undecided => "undecided",
            Self::Differs => "differs",
            Self::Shown => "not judged",
            Self::Unquoted => "no figure",
        }
    }

    /// The class of its mark.
    pub fn class(self) -> &'static str {
        match self {
            Self::Met | Self::Reproduced => "good",
            Self::Missed | Self::Differs => "bad",
            Self::SameDirection | Self::Agrees => "fair",
            Self::Noise | Self::Undecided | Self::Shown | Self::Unquoted => "none",
        }
    }
}

/// The two ends of what was published.
pub fn ends(published: Published) -> [f64; 2] {
    match published {
        Published::One(v) => [v, v],
        Published::Range([a, b]) => [a.min(b), a.max(b)],
    }
}

/// The relative distance of a figure from what was published: none within a range, infinite from 0 and
/// of what is no number.
pub fn distance(ours: f64, published: Published) -> f64 {
    let [low, high] = ends(published);
    let end = ours.clamp(low, high);
    match (ours - end).abs() {
        0.0 => 0.0,
        off if off.is_nan() => f64::INFINITY,
        off => off / end.abs(),
    }
}

fn is_little(ratio: f64) -> bool {
    (ratio - 1.0).abs() < LITTLE
}

/// Whether what was published as a ratio says nothing that could be otherwise: an effect this way or that.
pub fn says_nothing(published: Published) -> bool {
    let [low, high] = ends(published);
    low < 1.0 && high > 1.0 && !is_little(low) && !is_little(high)
}

/// Which part of the published effect ours is: its logarithm in parts of that of the nearer end. None where no
/// effect was published.
pub fn share(ours: f64, published: Published) -> Option<f64> {
    let [low, high] = ends(published);
    let is_effect = (low > 1.0 || high < 1.0) && !is_little(low) && !is_little(high);
    let near = ours.clamp(low, high);
    (is_effect && near > 0.0 && ours > 0.0).then(|| ours.ln() / near.ln())
}

/// The verdict on a ratio, of which the interval says where it may lie. The published ratio is an effect if it is
/// away from 1: ours is the same one if it is as far away on the same side. An interval that reaches from none to
/// the published one decides nothing.
pub fn effect(median: f64, [from, to]: [f64; 2], published: Published) -> ClaimVerdict {
    let [low, high] = ends(published);
    // Parts of a logarithm are powers of the ratio.
    let around = |end: f64| match is_little(end) {
        true => [end * (1.0 - LITTLE), end * (1.0 + LITTLE)],
        false => [end.powf(1.0 - ALIKE), end.powf(1.0 + ALIKE)],
    };
    let least = around(low).into_iter().fold(f64::INFINITY, f64::min);
    let most = around(high).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let is_side = low > 1.0 || high < 1.0;
    let is_wide = from < to && from <= 1.0 && 1.0 <= to;
    let reaches = from * (1.0 - LITTLE) <= most && least <= to * (1.0 + LITTLE);
    if is_side && is_wide && reaches {
        return ClaimVerdict::Undecided;
    }
    let is_none = is_little(low) && is_little(high);
    let is_same_side = (low >= 1.0 && median > 1.0) || (high <= 1.0 && median < 1.0);
    match (least <= median && median <= most, is_same_side) {
        (true, true) => ClaimVerdict::Reproduced,
        (true, false) if !is_side => ClaimVerdict::Reproduced,
        (false, true) if !is_wide && !is_none => ClaimVerdict::SameDirection,
        _ => ClaimVerdict::Differs,
    }
}
