package main

import (
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// model is a register per key. A get gives the value; a put writes; a compare-and-set writes if the value is the expected one.
var model = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		now, in, out := state.(string), input.(operation), output.(string)
		switch in.op {
		case "GET":
			return out == "?" || out == now, now
		case "PUT":
			return out == "?" || out == "ok", in.value
		default:
			if in.expected == now {
				return out == "?" || out == "ok", in.value
			}
			return out == "?" || out == "no", now
		}
	},
	DescribeOperation: func(input, output interface{}) string {
		in := input.(operation)
		return fmt.Sprintf("%s(%s → %s) = %s", in.op, in.expected, in.value, output)
	},
}

// operations gives what porcupine reads. An operation without an answer may have happened at any time after its call.
func operations(history []operation) []porcupine.Operation {
	all := make([]porcupine.Operation, 0, len(history))
	for _, o := range history {
		end := o.end
		if !o.isKnown() {
			end = math.MaxInt64
		}
		all = append(all, porcupine.Operation{ClientId: o.client, Input: o, Output: o.result, Call: o.call, Return: end})
	}
	return all
}

// linearizable looks at each key alone, and draws the first one that is wrong.
func linearizable(history []operation, drawing string) []string {
	keys := map[string][]operation{}
	for _, o := range history {
		keys[o.key] = append(keys[o.key], o)
	}
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	sort.Strings(names)
	var bad, open []string
	for _, name := range names {
		result, info := porcupine.CheckOperationsVerbose(model, operations(keys[name]), 20*time.Second)
		switch result {
		case porcupine.Illegal:
			if len(bad) == 0 {
				draw(info, drawing)
			}
			bad = append(bad, name)
		case porcupine.Unknown:
			open = append(open, name)
		}
	}
	var failures []string
	if len(bad) > 0 {
		failures = append(failures, fmt.Sprintf("not linearizable: %d keys, the first is %s (drawn in %s)", len(bad), bad[0], drawing))
	}
	if len(open) > 0 {
		failures = append(failures, fmt.Sprintf("not decided within 20 s: %d keys, the first is %s", len(open), open[0]))
	}
	return failures
}

func draw(info porcupine.LinearizationInfo, path string) {
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		fmt.Fprintln(os.Stderr, "cannot draw the history:", err)
	}
}
