package undecodable_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

func codecs(types *runtime.Scheme) runtime.NegotiatedSerializer {
	return serializer.NewCodecFactory(types).WithoutConversion()
}

func watchFunc(api rest.Interface) func(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.Watch = true
		return api.Get().Resource("resourceslices").VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
	}
}
