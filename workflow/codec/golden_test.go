package codec_test

// What was encoded once by the first release: see TestGoldenVectors.
const (
	goldenK1       = "736f8a16ce72c01a56de24bee8cd3f3851d4583494ca9709f1dcc786ef592d4bcec4f3b797d6d3"
	goldenK2       = "cf28ae4988925073df8178a517c15998897b39a7fec1eb0f85c7da49f26de874e3aacb78b011c0"
	goldenDigestK1 = "ba3e80433051b440f3b8411b4ec458913b015671181fa236dcfbfce6866ca603"
	goldenDigestK2 = "daddd218363f3aa40bbed6b2bd90b39ef2fe8927a6118453901b8ed811ecacbc"
	goldenGzip     = "1f8b08000000000004ffecc03101000000c2a0dac637c53e18041e0000ffffd2149fdf58020000"
)
