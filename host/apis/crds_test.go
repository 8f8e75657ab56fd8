package apis_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// conditionTypes and conditionStatuses are those of a ForeignCluster.
const (
	conditionTypes = "APIServerStatus|NetworkConnectionStatus|NetworkGatewayServerStatus|NetworkGatewayClientStatus|NetworkGatewayPresence|" +
		"NetworkConfigurationStatus|AuthIdentityControlPlaneStatus|AuthTenantStatus|OffloadingVirtualNodeStatus|OffloadingNodeStatus"
	conditionStatuses = "None|Pending|Established|Error|Ready|NotReady|SomeNotReady"
)

// crd is a custom resource definition as the reference has it. Fields map paths to a type, "*" if
// the field is required, the values of an enum, the default, and the message of a rule.
type crd struct {
	// shortNames are separated by spaces.
	shortNames  string
	scope       string
	hasNoStatus bool
	columns     []string
	fields      map[string]string
	// additions are paths that the reference does not have and ignores.
	additions []string
	// ownColumns are printed by Longshore alone.
	ownColumns []string
}

const age = "Age .metadata.creationTimestamp"

// identityCRDs are the definitions of Tenant and Identity in the reference.
func identityCRDs() map[string]crd {
	return map[string]crd{
		"tenants.authentication.liqo.io": {
			shortNames: "tn", scope: "Namespaced", columns: []string{"Condition .spec.tenantCondition", age},
			fields: join(map[string]string{
				"spec.clusterID":         "clusterID rule: ClusterID is immutable",
				"spec.authzPolicy":       "string KeysExchange|TolerateNoHandshake default: KeysExchange",
				"spec.publicKey":         "bytes",
				"spec.csr":               "bytes",
				"spec.signature":         "bytes",
				"spec.proxyURL":          "string",
				"spec.tenantCondition":   "string Active|Cordoned|Drained default: Active",
				"status.tenantNamespace": "string",
			}, authParams("status.authParams")),
			additions: []string{"status.conditions"},
		},
		"identities.authentication.liqo.io": {
			shortNames: "id", scope: "Namespaced",
			columns: []string{"Type .spec.type", "KubeconfigSecret .status.kubeconfigSecretRef.name 1", age},
			fields: join(map[string]string{
				"spec.clusterID":                  "clusterID",
				"spec.type":                       "string ControlPlane|ResourceSlice",
				"spec.namespace":                  "string",
				"status.kubeconfigSecretRef":      "object",
				"status.kubeconfigSecretRef.name": "string default: ",
			}, authParams("spec.authParams")),
			additions: []string{"status.conditions"},
		},
	}
}

// sliceCRDs are the definitions of ResourceSlice and Renew in the reference.
func sliceCRDs() map[string]crd {
	return map[string]crd{
		"resourceslices.authentication.liqo.io": {
			shortNames: "rslice", scope: "Namespaced",
			columns: []string{
				`Authentication .status.conditions[?(@.type=="Authentication")].status`, `Resources .status.conditions[?(@.type=="Resources")].status`, age,
			},
			fields: join(map[string]string{
				"spec.consumerClusterID":                             "clusterID",
				"spec.providerClusterID":                             "clusterID",
				"spec.resources":                                     "map of quantity",
				"spec.class":                                         "string",
				"spec.csr":                                           "bytes",
				"status.conditions":                                  "list",
				"status.conditions[].type":                           "string* Authentication|Resources",
				"status.conditions[].status":                         "string* Accepted|Denied",
				"status.conditions[].lastTransitionTime":             "date-time",
				"status.conditions[].reason":                         "string",
				"status.conditions[].message":                        "string",
				"status.resources":                                   "map of quantity",
				"status.storageClasses":                              "list",
				"status.storageClasses[].storageClassName":           "string*",
				"status.storageClasses[].default":                    "boolean",
				"status.ingressClasses":                              "list",
				"status.ingressClasses[].ingressClassName":           "string*",
				"status.ingressClasses[].default":                    "boolean",
				"status.loadBalancerClasses":                         "list",
				"status.loadBalancerClasses[].loadBalancerClassName": "string*",
				"status.loadBalancerClasses[].default":               "boolean",
				"status.nodeLabels":                                  "map of string",
				"status.nodeSelector":                                "map of string",
			}, authParams("status.authParams")),
		},
		"renews.authentication.liqo.io": {
			scope: "Namespaced", columns: []string{age},
			fields: join(map[string]string{
				"spec.consumerClusterID":     "clusterID",
				"spec.publicKey":             "bytes",
				"spec.csr":                   "bytes",
				"spec.identityType":          "string ControlPlane|ResourceSlice",
				"spec.resourceSliceRef":      "object",
				"spec.resourceSliceRef.name": "string default: ",
			}, authParams("status.authParams")),
		},
	}
}

// coreCRDs is the definition of ForeignCluster in the reference.
func coreCRDs() map[string]crd {
	return map[string]crd{
		"foreignclusters.core.liqo.io": {
			shortNames: "fc", scope: "Cluster", columns: []string{"Role .status.role", "ClusterID .spec.clusterID 1", age},
			ownColumns: []string{`API Server .status.conditions[?(@.type=="APIServerStatus")].status`},
			fields: join(map[string]string{
				"spec.clusterID":                "clusterID* rule: ClusterID field is immutable",
				"status.observedGeneration":     "int64",
				"status.role":                   "string* Consumer|Provider|ConsumerAndProvider|Unknown default: Unknown",
				"status.modules":                "object",
				"status.apiServerUrl":           "string",
				"status.foreignProxyUrl":        "string",
				"status.tenantNamespace":        "object",
				"status.tenantNamespace.local":  "string",
				"status.tenantNamespace.remote": "string",
			}, conditions("status.conditions"), module("networking"), module("authentication"), module("offloading")),
		},
	}
}

// join returns a map with the entries of all maps.
func join[V any](all ...map[string]V) map[string]V {
	out := map[string]V{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func authParams(path string) map[string]string {
	fields := map[string]string{
		path: "object", path + ".ca": "bytes", path + ".signedCRT": "bytes", path + ".apiServer": "string", path + ".proxyURL": "string",
		path + ".awsConfig": "object",
	}
	for _, name := range []string{"awsUserArn", "awsAccessKeyID", "awsSecretAccessKey", "awsRegion", "awsClusterName"} {
		fields[path+".awsConfig."+name] = "string*"
	}
	return fields
}

func module(name string) map[string]string {
	path := "status.modules." + name
	return join(map[string]string{path: "object", path + ".enabled": "boolean*"}, conditions(path+".conditions"))
}

func conditions(path string) map[string]string {
	return map[string]string{
		path: "list", path + "[].type": "string* " + conditionTypes, path + "[].status": "string* " + conditionStatuses + " default: None",
		path + "[].lastTransitionTime": "date-time", path + "[].reason": "string", path + "[].message": "string",
	}
}

func TestPeeringCRDsEqualTheReference(t *testing.T) {
	for name, want := range join(identityCRDs(), sliceCRDs(), coreCRDs(), networkCRDs(), gatewayCRDs(), wireGuardCRDs(), fabricCRDs(), ruleCRDs(), ipamCRDs()) {
		t.Run(name, func(t *testing.T) {
			plural, group, _ := strings.Cut(name, ".")
			spec := readCRD(t, plural)
			names := child(spec, "names")
			assert.Equal(t, group, spec["group"])
			assert.Equal(t, plural, names["plural"])
			assert.Equal(t, want.scope, spec["scope"])
			assert.Equal(t, []any{"liqo"}, names["categories"])
			assert.Equal(t, want.shortNames, joined(names["shortNames"]))
			versions, ok := spec["versions"].([]any)
			require.True(t, ok)
			require.Len(t, versions, 1, "one version without conversion")
			version, ok := versions[0].(map[string]any)
			require.True(t, ok)
			_, hasStatus := child(version, "subresources")["status"]
			assert.NotEqual(t, want.hasNoStatus, hasStatus)
			columns := columnsOf(version)
			assert.Subset(t, columns, want.ownColumns)
			assert.Equal(t, want.columns, slices.DeleteFunc(columns, func(c string) bool { return slices.Contains(want.ownColumns, c) }))
			fields := map[string]string{}
			schema := child(child(version, "schema"), "openAPIV3Schema")
			for _, part := range []string{"spec", "status"} {
				flatten(child(child(schema, "properties"), part), part, fields)
			}
			for path, described := range want.fields {
				assert.Equal(t, described, fields[path], path)
				delete(fields, path)
			}
			for path := range fields {
				assert.True(t, slices.ContainsFunc(want.additions, func(addition string) bool { return strings.HasPrefix(path, addition) }),
					"%s is not a field of the reference", path)
			}
		})
	}
}

// joined returns the texts of a list, separated by spaces.
func joined(list any) string {
	items, _ := list.([]any)
	return strings.TrimSuffix(fmt.Sprintln(items...), "\n")
}

func readCRD(t *testing.T, plural string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "longshore", "crds", plural+".yaml"))
	require.NoError(t, err)
	object := map[string]any{}
	require.NoError(t, yaml.Unmarshal(raw, &object))
	return child(object, "spec")
}

func child(object map[string]any, key string) map[string]any {
	value, _ := object[key].(map[string]any)
	return value
}

// columnsOf returns the printer columns: name, path, and priority if it is not zero.
func columnsOf(version map[string]any) []string {
	var columns []string
	list, _ := version["additionalPrinterColumns"].([]any)
	for _, item := range list {
		column, _ := item.(map[string]any)
		text := fmt.Sprintf("%s %s", column["name"], column["jsonPath"])
		if priority := column["priority"]; priority != nil {
			text += fmt.Sprintf(" %v", priority)
		}
		columns = append(columns, text)
	}
	return columns
}

// flatten describes the fields below a schema by path.
func flatten(schema map[string]any, path string, into map[string]string) {
	prefix := path + "."
	if items := child(schema, "items"); items["type"] == "object" {
		schema, prefix = items, path+"[]."
	}
	required, _ := schema["required"].([]any)
	for name, value := range child(schema, "properties") {
		field, _ := value.(map[string]any)
		into[prefix+name] = describe(field, slices.Contains(required, any(name)))
		flatten(field, prefix+name, into)
	}
}

func describe(field map[string]any, required bool) string {
	text := typeOf(field)
	if required {
		text += "*"
	}
	if values, ok := field["enum"].([]any); ok {
		names := make([]string, 0, len(values))
		for _, value := range values {
			names = append(names, fmt.Sprint(value))
		}
		text += " " + strings.Join(names, "|")
	}
	if value, ok := field["default"]; ok {
		text += fmt.Sprintf(" default: %v", value)
	}
	rules, _ := field["x-kubernetes-validations"].([]any)
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		text += fmt.Sprintf(" rule: %s", rule["message"])
	}
	return text
}

func typeOf(field map[string]any) string {
	const clusterID = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
	switch entries := child(field, "additionalProperties"); {
	case field["type"] == "array":
		return "list"
	case entries["x-kubernetes-int-or-string"] == true:
		return "map of quantity"
	case entries != nil:
		return fmt.Sprintf("map of %s", entries["type"])
	case field["pattern"] == clusterID:
		return "clusterID"
	case field["format"] == "byte":
		return "bytes"
	case field["format"] != nil:
		return fmt.Sprint(field["format"])
	default:
		return fmt.Sprint(field["type"])
	}
}

// TestColumnsPrintOneValue holds for every kind but those of networks, whose columns are the
// reference's: a column of a list or of an object prints JSON.
func TestColumnsPrintOneValue(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "charts", "longshore", "crds", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		plural := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if readCRD(t, plural)["group"] == "networking.liqo.io" {
			continue
		}
		versions, _ := readCRD(t, plural)["versions"].([]any)
		require.NotEmpty(t, versions)
		for _, item := range versions {
			version, _ := item.(map[string]any)
			fields := map[string]string{}
			flatten(child(child(version, "schema"), "openAPIV3Schema"), "", fields)
			for _, column := range columnsOf(version) {
				for _, path := range strings.Fields(column) {
					assert.NotRegexp(t, "^(list|map|object)", fields[path], "%s: column %s", plural, column)
				}
			}
		}
	}
}
