//! Summarises samples: mean, median and other quantiles, with 95 % confidence intervals.
//!
//! The interval of the mean is that of the normal distribution, 1.96 standard errors to each side, which needs about 30
//! samples. The interval of the median is distribution-free: two of the sorted samples, chosen by the binomial
//! distribution. It exists from six samples on.

use serde::Serialize;

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.96;

/// Least number of samples whose range covers the median with 95 % probability: 1 - 2 / 2^6.
const LEAST_FOR_MEDIAN: usize = 6;

/// Number of points of [`Summary::quantiles`].
pub const QUANTILES: u32 = 101;

/// A summary of samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// 95 % confidence interval of the mean; `None` with a single sample.
    pub mean_ci95: Option<[f64; 2]>,
    /// The median.
    pub median: f64,
    /// 95 % confidence interval of the median; `None` with fewer than six samples.
    pub median_ci95: Option<[f64; 2]>,
    /// Standard deviation; 0 with a single sample.
    pub sd: f64,
    /// The minimum.
    pub min: f64,
    /// The 5th percentile.
    pub p5: f64,
    /// The 25th percentile.
    pub p25: f64,
    /// The 75th percentile.
    pub p75: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
    /// Quantiles at each percent from 0 to 100.
    pub quantiles: Vec<f64>,
}

impl Summary {
    /// Summarises samples; `None` if there are none, or if one is not a finite number.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        if !min.is_finite() || !max.is_finite() {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 samples")]
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        let sd = if sorted.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let margin = Z * sd / count.sqrt();
        let at = |quantile| quantile_of(&sorted, quantile);
        let quantiles =
            (0..QUANTILES).map(|point| at(f64::from(point) / f64::from(QUANTILES - 1))).collect();
        Some(Self {
            count: sorted.len(),
            mean,
            mean_ci95: (sorted.len() > 1).then_some([mean - margin, mean + margin]),
            median: at(0.5),
            median_ci95: median_interval(&sorted),
            sd,
            min,
            p5: at(0.05),
            p25: at(0.25),
            p75: at(0.75),
            p95: at(0.95),
            p99: at(0.99),
            max,
            quantiles,
        })
    }
}

/// Returns a quantile of sorted samples, interpolated between the two nearest.
fn quantile_of(sorted: &[f64], quantile: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 samples")]
    let place = quantile * (sorted.len().saturating_sub(1)) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of samples"
    )]
    let below = place as usize;
    let first = sorted.get(below).copied().unwrap_or_default();
    let second = sorted.get(below + 1).copied().unwrap_or(first);
    first + (second - first) * place.fract()
}

/// Returns the samples between which the median lies with 95 % probability.
fn median_interval(sorted: &[f64]) -> Option<[f64; 2]> {
    if sorted.len() < LEAST_FOR_MEDIAN {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 samples")]
    let count = sorted.len() as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, as max says"
    )]
    let low = ((count - Z * count.sqrt()) / 2.0).floor().max(0.0) as usize;
    Some([*sorted.get(low)?, *sorted.get(sorted.len() - 1 - low)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_known_samples() {
        let samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let summary = Summary::of(&samples).unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (101, 1.0, 101.0));
        assert!((summary.mean - 51.0).abs() < 1e-9 && (summary.median - 51.0).abs() < 1e-9);
        assert!((summary.p25 - 26.0).abs() < 1e-9 && (summary.p95 - 96.0).abs() < 1e-9);
        assert!((summary.sd - 29.3).abs() < 0.01, "{}", summary.sd);
        let [low, high] = summary.mean_ci95.unwrap();
        assert!((high - low - 2.0 * Z * summary.sd / 101_f64.sqrt()).abs() < 1e-9);
        assert_eq!(summary.median_ci95, Some([41.0, 61.0]));
        assert_eq!(summary.quantiles.len(), 101);
    }

    #[test]
    fn few_samples_have_no_interval() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        let one = Summary::of(&[4.0]).unwrap();
        assert_eq!((one.mean, one.mean_ci95, one.median_ci95), (4.0, None, None));
        let five = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(five.median_ci95.is_none() && five.mean_ci95.is_some());
    }

    /// The interval covers the true median in about 95 of 100 cases.
    #[test]
    fn intervals_cover_the_truth() {
        let (mut state, mut means, mut medians) = (7_u64, 0, 0);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
        };
        for _ in 0..400 {
            let samples: Vec<f64> = (0..60).map(|_| next()).collect();
            let summary = Summary::of(&samples).unwrap();
            let covers = |interval: Option<[f64; 2]>| {
                interval.is_some_and(|[low, high]| (low..=high).contains(&0.5))
            };
            means += u32::from(covers(summary.mean_ci95));
            medians += u32::from(covers(summary.median_ci95));
        }
        assert!((366..=395).contains(&means), "{means} of 400");
        assert!((366..=398).contains(&medians), "{medians} of 400");
    }
}
