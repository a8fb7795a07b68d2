//! Axes: which part of the numbers a plot shows, where a number is, and the ticks.

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

/// The rungs that decades are divided at.
const RUNGS: [f64; 3] = [1.0, 2.0, 5.0];

/// The greatest of 1, 2, 5 × a power of ten that is no greater than a positive number.
fn rung_below(v: f64) -> f64 {
    let decade = 10f64.powf(v.log10().floor());
    RUNGS.iter().rev().map(|r| r * decade).find(|r| *r <= v * (1.0 + 1e-9)).unwrap_or(decade)
}

/// The next rung above one.
fn next_rung(rung: f64) -> f64 {
    let decade = 10f64.powf((rung * (1.0 + 1e-9)).log10().floor());
    match (rung / decade).round() as u32 {
        1 => 2.0 * decade,
        2 => 5.0 * decade,
        _ => 10.0 * decade,
    }
}

/// The least rung that is no less than a positive number.
fn rung_above(v: f64) -> f64 {
    let below = rung_below(v);
    if below >= v * (1.0 - 1e-9) { below } else { next_rung(below) }
}

impl Axis {
    /// An axis from nothing to the greatest of the numbers, or, if logarithmic, from below the least
    /// of them, so that the bar of the least is not empty. Numbers that are not positive do not count
    /// on a logarithmic axis.
    pub fn from_zero(values: impl IntoIterator<Item = f64>, log: bool) -> Self {
        let values = values.into_iter().filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (min, max) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if min > max {
            return Self { low: if log { 1.0 } else { 0.0 }, high: 10.0, log };
        }
        if log {
            let low = rung_below(min * 0.8);
            return Self { low, high: rung_above(max).max(next_rung(low)), log };
        }
        let (min, max) = (min.min(0.0), max.max(0.0));
        if min == max {
            return Self { low: 0.0, high: 1.0, log };
        }
        let step = rung_above((max - min) / 5.0);
        Self { low: (min / step).floor() * step, high: (max / step - 1e-9).ceil() * step, log }
    }

    /// An axis between two numbers, which are not on its ends.
    pub fn between(min: f64, max: f64, log: bool) -> Self {
        let axis = Self { low: min, high: max, log };
        let pad = (axis.map(max) - axis.map(min)).max(1e-9) * 0.05;
        let back = |v: f64| if log { 10f64.powf(v) } else { v };
        Self { low: back(axis.map(min) - pad), high: back(axis.map(max) + pad), log }
    }

    fn map(&self, v: f64) -> f64 {
        if self.log { v.log10() } else { v }
    }

    /// Where a number is: 0 at the lower end, 1 at the upper one. A number beyond is at the end.
    pub fn at(&self, v: f64) -> f64 {
        if self.log && v <= 0.0 {
            return 0.0;
        }
        let (low, high) = (self.map(self.low), self.map(self.high));
        ((self.map(v) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The numbers that the axis shows at the ticks: 4 to 11 round ones.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let step = rung_above((self.high - self.low) / 6.0);
            let count = ((self.high - self.low) / step + 1e-9) as i64;
            let first = (self.low / step).ceil() as i64;
            return (first..=first + count).map(|i| i as f64 * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let mut ticks = Vec::new();
        let mut tick = rung_above(self.low);
        while tick <= self.high * (1.0 + 1e-9) {
            let is_decade = (tick.log10() - tick.log10().round()).abs() < 1e-6;
            let exponent = tick.log10().round() as i64;
            if decades <= 3.0 || (is_decade && (decades <= 9.0 || exponent % 2 == 0)) {
                ticks.push(tick);
            }
            tick = next_rung(tick);
        }
        ticks
    }
}

/// A number at a tick: short, with k, M or G.
pub fn short(v: f64) -> String {
    let (scaled, unit) = match v.abs() {
        a if a >= 1e9 => (v / 1e9, " G"),
        a if a >= 1e6 => (v / 1e6, " M"),
        a if a >= 1e4 => (v / 1e3, " k"),
        _ => (v, ""),
    };
    // Ticks are round: what is left beyond six digits is the noise of floating point.
    let text = format!("{scaled:.6}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().map(short).collect()
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_has_round_ticks() {
        let axis = Axis::from_zero([3.0, 8.7], false);
        assert_eq!(shown(axis), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(
            (axis.at(0.0), axis.at(5.0), axis.at(10.0), axis.at(99.0)),
            (0.0, 0.5, 1.0, 1.0)
        );
        assert_eq!(shown(Axis::from_zero([0.13], false)).last().map(String::as_str), Some("0.15"));
        assert_eq!(shown(Axis::from_zero([0.0], false)).first().map(String::as_str), Some("0"));
        assert!(
            Axis::from_zero([-4.0, 4.0], false).at(-4.0) < Axis::from_zero([4.0], false).at(1.0)
        );
        assert_eq!(shown(Axis::from_zero([], false)).len(), 6);
    }

    #[test]
    fn a_logarithmic_axis_has_rungs_and_leaves_room_below_the_least() {
        let axis = Axis::from_zero([20.0, 900.0, f64::NAN, 0.0], true);
        assert_eq!(shown(axis), ["10", "20", "50", "100", "200", "500", "1000"]);
        assert!((axis.at(100.0) - 0.5).abs() < 1e-12);
        assert!(axis.at(20.0) > 0.0 && axis.at(0.0) == 0.0 && axis.at(-1.0) == 0.0);
        let wide = Axis::from_zero([1.0, 5e6], true);
        assert_eq!(shown(wide), ["1", "10", "100", "1000", "10 k", "100 k", "1 M"]);
        let equal = Axis::from_zero([1.0], true);
        assert!(equal.at(1.0) > 0.0 && equal.at(1.0) <= 1.0);
    }

    #[test]
    fn an_axis_between_has_both_ends_inside() {
        for log in [false, true] {
            let axis = Axis::between(1.0, 64.0, log);
            assert!(axis.at(1.0) > 0.0 && axis.at(64.0) < 1.0);
            let middle = if log { 8.0 } else { 32.5 };
            assert!((axis.at(middle) - 0.5).abs() < 1e-9, "{log}");
        }
        assert!(Axis::between(5.0, 5.0, false).at(5.0).is_finite(), "one number only");
    }

    #[test]
    fn ticks_are_short() {
        let shown = [0.0, 0.05, 1500.0, 25_000.0, 1e6, 2.5e9, -20_000.0].map(short);
        assert_eq!(shown, ["0", "0.05", "1500", "25 k", "1 M", "2.5 G", "-20 k"]);
    }
}
