module github.com/longshore-dev/longshore/sdk

go 1.26.0
