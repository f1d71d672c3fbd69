package sqlite

// lockFolder cannot lock a folder on Windows.
func lockFolder(string) (unlock func(), locked <-chan error) { return nil, nil }
