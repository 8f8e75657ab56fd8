package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// PermanentlyUnreachableAnnotation is "true" on a ForeignCluster that is lost, so that
	// finalizers do not wait for it. That waits until its API server does not answer.
	PermanentlyUnreachableAnnotation = "liqo.io/foreign-cluster-permanently-unreachable"
	// UnreachableAlthoughItAnswers is the value of the annotation for a cluster that answers, and does not
	// do what it is asked.
	UnreachableAlthoughItAnswers = "although-it-answers"
	// APIServerCheckerFinalizer is the finalizer of the API server probe.
	APIServerCheckerFinalizer = "api-server-checker.liqo.io/finalizer"
)

// RoleType is the role of the remote cluster.
//
// +kubebuilder:validation:Enum=Consumer;Provider;ConsumerAndProvider;Unknown
type RoleType string

// The roles of a remote cluster.
const (
	ConsumerRole            RoleType = "Consumer"
	ProviderRole            RoleType = "Provider"
	ConsumerAndProviderRole RoleType = "ConsumerAndProvider"
	UnknownRole             RoleType = "Unknown"
)

// ConditionType is the type of a condition.
//
// +kubebuilder:validation:Enum=APIServerStatus;NetworkConnectionStatus;NetworkGatewayServerStatus;NetworkGatewayClientStatus;NetworkGatewayPresence;NetworkConfigurationStatus;AuthIdentityControlPlaneStatus;AuthTenantStatus;OffloadingVirtualNodeStatus;OffloadingNodeStatus
type ConditionType string

// The condition types of a ForeignCluster and of its modules.
const (
	APIServerStatusCondition                ConditionType = "APIServerStatus"
	NetworkConnectionStatusCondition        ConditionType = "NetworkConnectionStatus"
	NetworkGatewayServerStatusCondition     ConditionType = "NetworkGatewayServerStatus"
	NetworkGatewayClientStatusCondition     ConditionType = "NetworkGatewayClientStatus"
	NetworkGatewayPresenceCondition         ConditionType = "NetworkGatewayPresence"
	NetworkConfigurationStatusCondition     ConditionType = "NetworkConfigurationStatus"
	AuthIdentityControlPlaneStatusCondition ConditionType = "AuthIdentityControlPlaneStatus"
	AuthTenantStatusCondition               ConditionType = "AuthTenantStatus"
	OffloadingVirtualNodeStatusCondition    ConditionType = "OffloadingVirtualNodeStatus"
	OffloadingNodeStatusCondition           ConditionType = "OffloadingNodeStatus"
)

// ConditionStatusType is the status of a condition.
//
// +kubebuilder:validation:Enum=None;Pending;Established;Error;Ready;NotReady;SomeNotReady
type ConditionStatusType string

// The states of a condition.
const (
	ConditionStatusNone         ConditionStatusType = "None"
	ConditionStatusPending      ConditionStatusType = "Pending"
	ConditionStatusEstablished  ConditionStatusType = "Established"
	ConditionStatusError        ConditionStatusType = "Error"
	ConditionStatusReady        ConditionStatusType = "Ready"
	ConditionStatusNotReady     ConditionStatusType = "NotReady"
	ConditionStatusSomeNotReady ConditionStatusType = "SomeNotReady"
)

// Condition is the state of one aspect of a peering.
type Condition struct {
	// Type of the condition.
	Type ConditionType `json:"type"`
	// Status of the condition.
	// +kubebuilder:default="None"
	Status ConditionStatusType `json:"status"`
	// LastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
	// Reason for the last transition, in CamelCase.
	Reason string `json:"reason,omitempty"`
	// Message is human-readable.
	Message string `json:"message,omitempty"`
}

// Module is the state of one of networking, authentication, offloading.
type Module struct {
	// Enabled is true if any object of the module exists for this peer.
	Enabled bool `json:"enabled"`
	// Conditions of the module.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Modules holds the state of the three modules of a peering.
type Modules struct {
	// Networking module.
	// +optional
	Networking Module `json:"networking,omitempty"`
	// Authentication module.
	// +optional
	Authentication Module `json:"authentication,omitempty"`
	// Offloading module.
	// +optional
	Offloading Module `json:"offloading,omitempty"`
}

// TenantNamespaceType names the namespaces of a peering on both sides.
type TenantNamespaceType struct {
	// Local is the tenant namespace in this cluster.
	Local string `json:"local,omitempty"`
	// Remote is the tenant namespace in the other cluster.
	Remote string `json:"remote,omitempty"`
}

// ForeignClusterSpec is the desired state of a ForeignCluster.
type ForeignClusterSpec struct {
	// ClusterID of the remote cluster.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ClusterID field is immutable"
	ClusterID ClusterID `json:"clusterID"`
}

// ForeignClusterStatus is the observed state of a ForeignCluster.
type ForeignClusterStatus struct {
	// ObservedGeneration is the last reconciled generation, or 0.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Role of the remote cluster.
	// +kubebuilder:default="Unknown"
	Role RoleType `json:"role"`
	// Modules of the peering.
	// +optional
	Modules Modules `json:"modules,omitempty"`
	// APIServerURL of the remote cluster.
	APIServerURL string `json:"apiServerUrl,omitempty"`
	// ForeignProxyURL is the proxy of the API server.
	ForeignProxyURL string `json:"foreignProxyUrl,omitempty"`
	// TenantNamespace names the namespaces of the peering.
	// +optional
	TenantNamespace TenantNamespaceType `json:"tenantNamespace,omitempty"`
	// Conditions that do not belong to a module.
	Conditions []Condition `json:"conditions,omitempty"`
}

// ForeignCluster is a peer and the state of the peering with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fc,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.status.role`
// +kubebuilder:printcolumn:name="API Server",type=string,JSONPath=`.status.conditions[?(@.type=="APIServerStatus")].status`
// +kubebuilder:printcolumn:name="ClusterID",type=string,priority=1,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ForeignCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ForeignClusterSpec   `json:"spec,omitempty"`
	Status ForeignClusterStatus `json:"status,omitempty,omitzero"`
}

// ForeignClusterList is a list of ForeignClusters.
//
// +kubebuilder:object:root=true
type ForeignClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ForeignCluster `json:"items"`
}
