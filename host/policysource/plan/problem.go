package plan

import "fmt"

// The reasons of a [Problem], of reports and of the condition Ready.
const (
	ReasonInvalidSpec      = "InvalidSpec"
	ReasonModuleNotLoaded  = "ModuleNotLoaded"
	ReasonModuleNotFound   = "ModuleNotFound"
	ReasonModuleIncomplete = "ModuleIncomplete"
	ReasonInvalidSettings  = "InvalidSettings"
	ReasonBindingRefused   = "BindingRefused"
	ReasonOrderNeeded      = "OrderNeeded"
	// ReasonReportRefused is that of a module without an acceptable signed report, in clusters that
	// require one.
	ReasonReportRefused = "ReportRefused"
)

// Problem is why the current version of a policy cannot be used.
type Problem struct {
	// Reason is one of the reasons above.
	Reason string
	// Err says what is wrong and who must act.
	Err error
}

// Error implements error.
func (p *Problem) Error() string { return p.Err.Error() }

// Invalid returns the problem of a spec that the operator must correct.
func Invalid(format string, arguments ...any) *Problem {
	return &Problem{Reason: ReasonInvalidSpec, Err: fmt.Errorf(format, arguments...)}
}
