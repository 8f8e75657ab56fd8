package v1beta1

// AuthParams are the credentials that a provider issues to a consumer.
type AuthParams struct {
	// CA is the PEM bundle of the provider's API server; empty means the system's
	// trust store.
	CA []byte `json:"ca,omitempty"`
	// SignedCRT is the PEM client certificate.
	SignedCRT []byte `json:"signedCRT,omitempty"`
	// APIServer is the URL of the provider's API server, "https://host:port".
	APIServer string `json:"apiServer,omitempty"`
	// ProxyURL of an HTTP CONNECT proxy through which APIServer is reached.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// AwsConfig replaces the certificate on EKS.
	AwsConfig *AwsConfig `json:"awsConfig,omitempty"`
}

// AwsConfig holds the credentials of an IAM user that EKS maps to the consumer.
type AwsConfig struct {
	// AwsUserArn is the ARN of the IAM user.
	AwsUserArn string `json:"awsUserArn"`
	// AwsAccessKeyID is the ID of its access key.
	AwsAccessKeyID string `json:"awsAccessKeyID"`
	// AwsSecretAccessKey is its access key.
	AwsSecretAccessKey string `json:"awsSecretAccessKey"`
	// AwsRegion of the EKS cluster.
	AwsRegion string `json:"awsRegion"`
	// AwsClusterName of the EKS cluster.
	AwsClusterName string `json:"awsClusterName"`
}
