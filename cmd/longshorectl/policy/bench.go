package policy

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Benchmark compares a module with the built-in policies.
type Benchmark struct {
	// Points that the module answers.
	Points []BenchmarkPoint `json:"points"`
}

// BenchmarkPoint is what the requests of one point take.
type BenchmarkPoint struct {
	Module suite.Measurement `json:"module"`
	// BuiltIn is the default policy of the point; nil if the point has none.
	BuiltIn *suite.Measurement `json:"builtIn,omitempty"`
}

const benchExample = `  # What does a decision of this module take?
  longshorectl policy bench module.wasm.gz --vectors vectors`

func benchCommand(streams Streams) *cobra.Command {
	var format output.Format
	var folder string
	var calls int
	command := &cobra.Command{
		Use:   "bench MODULE [--vectors FOLDER]",
		Short: "Measure time, fuel and memory of a module's decisions, beside the built-in policies",
		Long: "Measure what a decision of a module takes: time, fuel and memory, at the median and the 99th percentile, beside the built-in\n" +
			"policy of the same point. The requests are the ordinary ones of policy conform. Fuel and memory are the same on every machine;\n" +
			"time is that of this machine, and of the call alone. A cluster caches equal answers, and does not call a module again for them.\n" +
			"Exit codes: 0 measured, 1 an input cannot be read, 2 wrong command line, 3 the module is refused.",
		Example: benchExample,
		Args:    oneModule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if calls < 1 {
				return output.Usagef("invalid --calls %d: want at least 1", calls)
			}
			raw, err := streams.read(args[0])
			if err != nil {
				return err
			}
			options := suite.Options{Source: args[0], Compiler: streams.Compiler}
			if folder != "" {
				if options.Vectors, err = readVectors(folder); err != nil {
					return err
				}
			}
			result, err := bench(cmd.Context(), raw, options, calls)
			if err != nil {
				return err
			}
			return output.Print(streams.Out, format, result, result.text)
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVar(&folder, "vectors", "", "folder with golden cases of the module, whose settings are used")
	flags.IntVar(&calls, "calls", 20, "timed calls of each request")
	return command
}

func bench(ctx context.Context, raw []byte, options suite.Options, calls int) (*Benchmark, error) {
	own, err := suite.Bench(ctx, raw, options, calls, time.Now)
	if err != nil {
		return nil, refusedModule(ctx, options.Source, err)
	}
	packed, err := builtinpolicies.Module()
	if err != nil {
		return nil, fmt.Errorf("this longshorectl carries no built-in module: %w", err)
	}
	golden, err := vectors.All()
	if err != nil {
		return nil, fmt.Errorf("reading the golden vectors: %w", err)
	}
	builtin, err := suite.Bench(ctx, packed, suite.Options{Vectors: golden, BuiltIn: true}, calls, time.Now)
	if err != nil {
		return nil, fmt.Errorf("measuring the built-in policies: %w", err)
	}
	byPoint := map[contract.Point]*suite.Measurement{}
	for i := range builtin {
		byPoint[builtin[i].Point] = &builtin[i]
	}
	result := &Benchmark{}
	for i := range own {
		result.Points = append(result.Points, BenchmarkPoint{Module: own[i], BuiltIn: byPoint[own[i].Point]})
	}
	return result, nil
}

func (b *Benchmark) text(w io.Writer) error {
	micro := func(nanoseconds uint64) string {
		if nanoseconds >= uint64(time.Millisecond) {
			return strconv.FormatUint(nanoseconds/1000, 10)
		}
		return strconv.FormatFloat(float64(nanoseconds)/1000, 'f', 1, 64)
	}
	ticks := func(fuel uint64) string {
		if fuel >= 1e6 {
			return strconv.FormatUint(fuel/1000, 10) + "k"
		}
		return strconv.FormatUint(fuel, 10)
	}
	row := func(name string, m *suite.Measurement) []string {
		return []string{
			string(m.Point), name, strconv.Itoa(m.Requests), micro(m.Time.P50), micro(m.Time.P99),
			ticks(m.Fuel.P50), ticks(m.Fuel.P99), size(int(m.Memory.Max)),
		}
	}
	var rows [][]string
	for i := range b.Points {
		rows = append(rows, row("module", &b.Points[i].Module))
		if builtin := b.Points[i].BuiltIn; builtin != nil {
			rows = append(rows, row("built-in", builtin))
		}
	}
	return output.Table(w, []string{"POINT", "POLICY", "COUNT", "US P50", "US P99", "FUEL P50", "FUEL P99", "MEMORY"}, rows)
}
