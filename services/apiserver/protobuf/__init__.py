"""Bodies in Kubernetes' protobuf encoding, read into the JSON form that everything else works on."""
