package main

import (
	"fmt"
	"sort"
	"strings"
)

// figures of a phase.
type figures struct {
	answers  int
	p50, p99 float64
	// The longest time without an answer, in seconds: of the worst partition, and of all together.
	gap, gapAll float64
}

// measure looks at the answers of a phase. A gap that began before it or goes on after it counts as long as the phase lasts.
func measure(p phase, history []operation) figures {
	var f figures
	var latencies []float64
	ends := map[int][]int64{}
	for _, o := range history {
		if !o.isKnown() {
			continue
		}
		if o.end >= p.start && o.end < p.end {
			latencies = append(latencies, float64(o.end-o.call)/1000)
			ends[o.partition] = append(ends[o.partition], o.end)
			ends[-1] = append(ends[-1], o.end)
		} else if _, ok := ends[o.partition]; !ok {
			// A partition that never answers in this phase has a gap as long as it.
			ends[o.partition] = nil
		}
	}
	f.answers = len(latencies)
	sort.Float64s(latencies)
	if f.answers > 0 {
		f.p50 = latencies[f.answers/2]
		f.p99 = latencies[f.answers*99/100]
	}
	for partition, times := range ends {
		longest := gap(p, times)
		if partition == -1 {
			f.gapAll = longest
		} else {
			f.gap = max(f.gap, longest)
		}
	}
	if f.answers == 0 {
		f.gapAll = gap(p, nil)
	}
	return f
}

func gap(p phase, times []int64) float64 {
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	longest, last := int64(0), p.start
	for _, at := range append(times, p.end) {
		longest = max(longest, at-last)
		last = at
	}
	return float64(longest) / 1e6
}

// table gives a row for each phase, and a sentence for each bar that was not held.
func table(phases []phase, history []operation) (string, []string) {
	var out strings.Builder
	var failures []string
	fmt.Fprintf(&out, "%-34s %6s %8s %6s %8s %8s %9s %8s %6s\n",
		"phase", "s", "answers", "/s", "p50 ms", "p99 ms", "gap s", "of all", "bar")
	for _, p := range phases {
		f := measure(p, history)
		seconds := float64(p.end-p.start) / 1e6
		bar := "–"
		if p.bar > 0 {
			bar = fmt.Sprintf("%.0f", p.bar)
			if f.gap > p.bar {
				failures = append(failures,
					fmt.Sprintf("%s: a partition gave no answer for %.1f s, more than %.0f", p.name, f.gap, p.bar))
			}
		}
		fmt.Fprintf(&out, "%-34s %6.1f %8d %6.0f %8.0f %8.0f %9.1f %8.1f %6s\n",
			p.name, seconds, f.answers, float64(f.answers)/seconds, f.p50, f.p99, f.gap, f.gapAll, bar)
		if f.answers == 0 {
			failures = append(failures, p.name+": no answer at all")
		}
	}
	return out.String(), failures
}
