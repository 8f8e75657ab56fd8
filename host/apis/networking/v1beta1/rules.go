package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RuleConditionType is whether a host has applied rules.
//
// +kubebuilder:validation:Enum=Applied;Error
type RuleConditionType string

// The conditions of rules.
const (
	RulesApplied RuleConditionType = "Applied"
	RulesError   RuleConditionType = "Error"
)

// RuleCondition is the state of rules at a host.
type RuleCondition struct {
	// Host that reports the condition.
	Host string `json:"host"`
	// Type of the condition.
	Type RuleConditionType `json:"type"`
	// Status of the condition.
	Status metav1.ConditionStatus `json:"status"`
	// LastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
}

// RulesStatus is the observed state of a FirewallConfiguration or RouteConfiguration.
type RulesStatus struct {
	// Conditions of the hosts.
	Conditions []RuleCondition `json:"conditions,omitempty"`
}

// MatchIP matches an address.
type MatchIP struct {
	// Value is an address, a network or a range.
	Value string `json:"value"`
	// Position of the address.
	// +kubebuilder:validation:Enum=src;dst
	Position string `json:"position"`
}

// MatchPort matches a port.
type MatchPort struct {
	// Value is a port or a range.
	Value string `json:"value"`
	// Position of the port.
	// +kubebuilder:validation:Enum=src;dst
	Position string `json:"position"`
}

// MatchProto matches a protocol.
type MatchProto struct {
	// Value is the protocol.
	// +kubebuilder:validation:Enum=tcp;udp
	Value string `json:"value"`
}

// MatchDev matches an interface.
type MatchDev struct {
	// Value is the name of the interface.
	Value string `json:"value"`
	// Position of the interface.
	// +kubebuilder:validation:Enum=in;out
	Position string `json:"position"`
}

// Match selects packets for which all of its parts hold.
type Match struct {
	// Op compares.
	// +kubebuilder:validation:Enum=eq;neq
	Op string `json:"op"`
	// IP of the packet.
	IP *MatchIP `json:"ip,omitempty"`
	// Port of the packet.
	Port *MatchPort `json:"port,omitempty"`
	// Proto of the packet.
	Proto *MatchProto `json:"proto,omitempty"`
	// Dev of the packet.
	Dev *MatchDev `json:"dev,omitempty"`
}

// NatRule translates addresses.
type NatRule struct {
	// Name of the rule.
	Name *string `json:"name,omitempty"`
	// Match selects packets.
	Match []Match `json:"match,omitempty"`
	// NatType is what is translated.
	// +kubebuilder:validation:Enum=dnat;snat;masquerade
	NatType string `json:"natType"`
	// To is the new address.
	To *string `json:"to,omitempty"`
	// TargetRef refers to the object for which the rule exists.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// FilterRule accepts, drops or changes packets.
type FilterRule struct {
	// Name of the rule.
	Name *string `json:"name,omitempty"`
	// Counter counts the packets.
	// +kubebuilder:default=true
	Counter bool `json:"counter,omitempty"`
	// Match selects packets.
	Match []Match `json:"match,omitempty"`
	// Action on the packets.
	// +kubebuilder:validation:Enum=ctmark;metamarkfromctmark;tcpmssclamp;accept;drop;reject;notrack
	Action string `json:"action"`
	// Value of the action.
	Value *string `json:"value,omitempty"`
}

// FirewallRouteRule is a rule of a chain of routes.
type FirewallRouteRule struct {
	// Name of the rule.
	Name *string `json:"name,omitempty"`
}

// RulesSet has the rules of one kind.
//
// +kubebuilder:validation:MaxProperties=1
// +kubebuilder:validation:MinProperties=1
type RulesSet struct {
	// NatRules of a chain of type nat.
	NatRules []NatRule `json:"natRules,omitempty"`
	// FilterRules of a chain of type filter.
	FilterRules []FilterRule `json:"filterRules,omitempty"`
	// RouteRules of a chain of type route.
	RouteRules []FirewallRouteRule `json:"routeRules,omitempty"`
}

// Chain is a chain of nftables.
type Chain struct {
	// Name of the chain.
	Name *string `json:"name"`
	// Type of the chain.
	// +kubebuilder:validation:Enum=filter;route;nat
	Type *string `json:"type"`
	// Policy for packets that no rule matches.
	// +kubebuilder:validation:Enum=drop;accept
	Policy *string `json:"policy"`
	// Hook at which the chain is.
	// +kubebuilder:validation:Enum=prerouting;input;forward;output;postrouting;ingress
	Hook *string `json:"hook"`
	// Priority among the chains of the hook.
	// +kubebuilder:default=0
	Priority *int32 `json:"priority,omitempty"`
	// Rules of the chain.
	Rules RulesSet `json:"rules,omitempty"`
}

// FirewallTable is a table of nftables.
type FirewallTable struct {
	// Name of the table.
	Name *string `json:"name"`
	// Family of the table.
	// +kubebuilder:validation:Enum=INET;IPV4;IPV6;ARP;NETDEV;BRIDGE
	Family *string `json:"family"`
	// Chains of the table.
	Chains []Chain `json:"chains,omitempty"`
}

// FirewallConfigurationSpec is the desired state of a FirewallConfiguration.
type FirewallConfigurationSpec struct {
	// Table of the rules.
	Table FirewallTable `json:"table,omitempty"`
}

// FirewallConfiguration are rules of nftables for the hosts that its labels select.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=fw;fwconfig;fwcfg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirewallConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FirewallConfigurationSpec `json:"spec,omitempty"`
	Status RulesStatus               `json:"status,omitempty,omitzero"`
}

// FirewallConfigurationList is a list of FirewallConfigurations.
//
// +kubebuilder:object:root=true
type FirewallConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FirewallConfiguration `json:"items"`
}

// Route is a route of a table.
type Route struct {
	// Dst is the network of the route.
	Dst *CIDR `json:"dst"`
	// Src is the preferred source address.
	Src *IP `json:"src,omitempty"`
	// Gw is the gateway.
	Gw *IP `json:"gw,omitempty"`
	// Dev is the interface.
	Dev *string `json:"dev,omitempty"`
	// Onlink takes the gateway as reachable on the interface.
	Onlink *bool `json:"onlink,omitempty"`
	// Scope of the route.
	// +kubebuilder:validation:Enum=global;link;host;site;nowhere
	Scope *string `json:"scope,omitempty"`
	// TargetRef refers to the object for which the route exists.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// RouteRule selects packets that the routes are for.
type RouteRule struct {
	// Dst of the packets.
	Dst *CIDR `json:"dst,omitempty"`
	// Src of the packets.
	Src *CIDR `json:"src,omitempty"`
	// Iif is the interface through which packets come.
	Iif *string `json:"iif,omitempty"`
	// Oif is the interface through which packets go.
	Oif *string `json:"oif,omitempty"`
	// FwMark of the packets.
	FwMark *int `json:"fwmark,omitempty"`
	// Priority of the rule.
	Priority *int `json:"priority,omitempty"`
	// Routes of the rule.
	Routes []Route `json:"routes"`
	// TargetRef refers to the object for which the rule exists.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// RouteTable is a table of routes.
type RouteTable struct {
	// Name of the table.
	Name string `json:"name"`
	// Rules of the table.
	// +kubebuilder:validation:MinItems=1
	Rules []RouteRule `json:"rules"`
	// TargetRef refers to the object for which the table exists.
	TargetRef *corev1.ObjectReference `json:"targetRef,omitempty"`
}

// RouteConfigurationSpec is the desired state of a RouteConfiguration.
type RouteConfigurationSpec struct {
	// Table of the routes.
	Table RouteTable `json:"table,omitempty"`
}

// RouteConfiguration are routes for the hosts that its labels select.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=rcnf;rcnfg;rcfg;routecfg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RouteConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RouteConfigurationSpec `json:"spec,omitempty"`
	Status RulesStatus            `json:"status,omitempty,omitzero"`
}

// RouteConfigurationList is a list of RouteConfigurations.
//
// +kubebuilder:object:root=true
type RouteConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RouteConfiguration `json:"items"`
}
