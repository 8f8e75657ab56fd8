package engine

import "fmt"

// CheckImport returns an error for a function that modules may not import. The error names
// the function and the action of the module's author.
func CheckImport(module, name string) error {
	isOffered := false
	switch module {
	case extismModule:
		isOffered = extismFunctions[name]
	case wasiModule:
		_, isOffered = wasiFunctions[name]
		isOffered = isOffered || name == "proc_exit"
	case "env":
		if name == "abort" {
			return fmt.Errorf("the module imports env.abort, which policies are not given: the policy's author must name a function of the policy instead (AssemblyScript: --use abort=policy/stop), which may call error_set")
		}
	case "extism:host/user":
		return fmt.Errorf("the module imports %s.%s, but policies have no host functions of their own: everything a policy may know is in the request; the policy's author must remove the import", module, name)
	}
	if isOffered {
		return nil
	}
	return fmt.Errorf("the module imports %s.%s, which policies are not given (only %s and %s are): the policy's author must remove the import", module, name, extismModule, wasiModule)
}

// extismFunctions are the functions of the kernel that guests may import.
var extismFunctions = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range []string{
		"alloc", "free", "length", "length_unsafe", "load_u8", "load_u64", "store_u8", "store_u64",
		"input_set", "input_length", "input_offset", "input_load_u8", "input_load_u64",
		"output_set", "output_length", "output_offset", "reset", "error_set", "error_get", "memory_bytes",
		"config_get", "var_get", "var_set", "http_request", "http_status_code", "http_headers",
		"get_log_level", "log_trace", "log_debug", "log_info", "log_warn", "log_error",
	} {
		names[name] = true
	}
	return names
}()
