package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is the user a server runs as.
type account struct {
	name     string
	uid, gid int
	switched bool // not the user of this process
}

// accountFor returns the account for a server whose directory is dir (may be empty or missing).
func accountFor(dir string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{name: "uid " + strconv.Itoa(uid), uid: uid, gid: os.Getegid()}, nil
	}
	if dir != "" {
		for _, path := range []string{filepath.Join(dir, "data"), dir} {
			if a, ok := ownerAccount(path); ok {
				return a, nil
			}
		}
	}
	for _, name := range []string{"postgres", "nobody", "daemon"} {
		if a, ok := lookupAccount(name); ok {
			return a, nil
		}
	}
	return account{}, errors.New("PostgreSQL refuses to run as root, and there is no user postgres, nobody " +
		"or daemon to run it as: create one, or run as a normal user")
}

func ownerAccount(path string) (account, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return account{}, false
	}
	uid, gid := owner(info)
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return account{name: name, uid: uid, gid: gid, switched: true}, uid != 0
}

func lookupAccount(name string) (account, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	ok := err1 == nil && err2 == nil && uid != 0
	return account{name: name, uid: uid, gid: gid, switched: true}, ok
}

// own gives a file to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// reach returns nil when the account can get to dir, else which directory is closed to it.
func (a account) reach(dir string) error {
	if !a.switched {
		return nil
	}
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !a.traverses(info) {
			return fmt.Errorf("PostgreSQL refuses to run as root, so it runs as user %s, which cannot reach %s: "+
				"%s has mode %s. Choose a directory that others can reach, or run as a normal user",
				a.name, dir, path, info.Mode().Perm())
		}
		parent := filepath.Dir(path)
		if parent == path {
			return nil
		}
		path = parent
	}
}

func (a account) traverses(info fs.FileInfo) bool {
	uid, gid := owner(info)
	switch {
	case uid == a.uid:
		return info.Mode()&0o100 != 0
	case gid == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}
