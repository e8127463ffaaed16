//! From built programs to the files of an artifact folder, each made once and linked from then on.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tar::EntryType;

use super::ComponentError;
use super::recipe::Recipe;
use crate::artifacts::{ArtifactError, FolderFile, Format, IMAGE_PREFIX, Known, hex};
use crate::lab::images::{Hashed, Image, bare_header};

/// Raised when files are put together in another way from the same inputs.
const REVISION: &str = "2";

/// A file that an artifact folder gets.
pub(super) struct Output {
    name: String,
    version: Option<String>,
    file: String,
    format: Format,
    make: Make,
}

/// How its bytes come about. The sources' paths hold the keys of the builds that they come from, so this value, written
/// out, is a key of the file.
#[derive(Debug)]
enum Make {
    Copy(PathBuf),
    /// Members with their paths in the archive.
    TarGz(Vec<(String, PathBuf)>),
    Image(Box<Image>),
}

impl Output {
    /// A program as it is.
    pub(super) fn program(name: &str, recipe: &Recipe, built: &Path) -> Self {
        Self::new(name, Some(recipe.version()), name, Format::Plain, Make::Copy(built.join(name)))
    }

    /// All programs of a build in an archive, where upstream's archive has them: below `prefix`.
    pub(super) fn archive(recipe: &Recipe, built: &Path, file: &str, prefix: &str) -> Self {
        let members = recipe.programs.iter().map(|name| (format!("{prefix}{name}"), built.join(name))).collect();
        Self::new(recipe.name, Some(recipe.version()), file, Format::TarGz, Make::TarGz(members))
    }

    /// An image archive.
    pub(super) fn image(image: Image) -> Self {
        let file = format!("images/{}.tar", image.reference.replace(['/', ':'], "_"));
        let name = format!("{IMAGE_PREFIX}{}", image.reference);
        Self::new(&name, None, &file, Format::Tar, Make::Image(Box::new(image)))
    }

    /// A file that was downloaded.
    pub(super) fn downloaded(name: &str, version: &str, format: Format, path: PathBuf) -> Self {
        let suffix = if format == Format::TarGz { ".tar.gz" } else { "" };
        Self::new(name, Some(version), &format!("{name}{suffix}"), format, Make::Copy(path))
    }

    fn new(name: &str, version: Option<&str>, file: &str, format: Format, make: Make) -> Self {
        Self { name: name.into(), version: version.map(Into::into), file: file.into(), format, make }
    }

    /// For the progress display.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Puts it into `dir`, made in `cache` if it is not there yet. An unchanged file is neither read nor written.
    pub(super) async fn place(
        self,
        dir: &Path,
        arch: &str,
        cache: &Path,
        known: &Known,
    ) -> Result<FolderFile, ComponentError> {
        let key = hex(&Sha256::digest(format!("{REVISION} {arch} {:?}", self.make)));
        let kept = cache.join("files").join(&key);
        let note = kept.with_extension("digest");
        let (sha256, size) = match read_note(&note) {
            Some((sha256, size)) if kept.exists() && known.verify(&kept, &sha256).await.is_ok() => (sha256, size),
            _ => {
                let (make, path) = (self.make, kept.clone());
                let made = tokio::task::spawn_blocking(move || make.write(&path)).await;
                let (sha256, size) =
                    made.map_err(io::Error::other).and_then(|made| made).map_err(ArtifactError::io("write", &kept))?;
                std::fs::write(&note, format!("{sha256} {size}\n")).map_err(ArtifactError::io("write", &note))?;
                known.remember(&kept, &sha256).await?;
                (sha256, size)
            }
        };
        let target = dir.join(&self.file);
        link(&kept, &target).map_err(ArtifactError::io("write", &target))?;
        known.remember(&target, &sha256).await?;
        let (name, version, file, format) = (self.name, self.version, self.file, self.format);
        Ok(FolderFile { name, version, arch: arch.into(), file, sha256, size, format })
    }
}

impl Make {
    /// Whole or not at all.
    fn write(&self, path: &Path) -> io::Result<(String, u64)> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let temporary = path.with_extension("new");
        let made = match self {
            Self::Copy(source) => {
                link_or_copy(source, &temporary)?;
                let mut hashed = Hashed::new(io::sink());
                io::copy(&mut File::open(source)?, &mut hashed)?;
                hashed.finish()
            }
            Self::TarGz(members) => write_tar_gz(members, &temporary)?,
            Self::Image(image) => image.write(&temporary)?,
        };
        std::fs::rename(&temporary, path)?;
        Ok(made)
    }
}

/// The same members give the same bytes.
fn write_tar_gz(members: &[(String, PathBuf)], path: &Path) -> io::Result<(String, u64)> {
    // Level 1: these archives go over a LAN, and each level above costs more time than its bytes do.
    let gzip = GzEncoder::new(Hashed::new(BufWriter::new(File::create(path)?)), Compression::fast());
    let mut builder = tar::Builder::new(gzip);
    for (name, source) in members {
        let file = File::open(source)?;
        let mut header = bare_header(EntryType::Regular, 0o755, file.metadata()?.len());
        // By hand, since the crate drops the `./` that upstream's CNI archive has and that tar wants to be asked for.
        let field = header.as_old_mut().name.get_mut(..name.len());
        field.ok_or(io::ErrorKind::InvalidFilename)?.copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, file)?;
    }
    let mut out = builder.into_inner()?.finish()?;
    out.flush()?;
    out.inner.get_ref().sync_all()?;
    Ok(out.finish())
}

/// Makes `target` the same file as `kept`, or a copy on another file system. Nothing happens if it is already.
fn link(kept: &Path, target: &Path) -> io::Result<()> {
    let from = std::fs::metadata(kept)?;
    if let Ok(to) = std::fs::metadata(target)
        && ((to.dev(), to.ino()) == (from.dev(), from.ino())
            || (to.dev() != from.dev() && to.len() == from.len() && to.modified()? == from.modified()?))
    {
        return Ok(());
    }
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let temporary = target.with_extension("new");
    link_or_copy(kept, &temporary)?;
    std::fs::rename(temporary, target)
}

fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match std::fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            std::fs::copy(from, to)?;
            File::options().write(true).open(to)?.set_modified(std::fs::metadata(from)?.modified()?)
        }
        result => result,
    }
}

fn read_note(path: &Path) -> Option<(String, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let (sha256, size) = text.trim_end().split_once(' ')?;
    Some((sha256.to_owned(), size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_made_once_and_again_only_if_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, out) = (dir.path().join("cache"), dir.path().join("out"));
        let known = Known::new(&cache);
        let source = dir.path().join("runc");
        std::fs::write(&source, "program").unwrap();
        let output = || Output::downloaded("runc", "1.4.3", Format::Plain, source.clone());
        let first = output().place(&out, "amd64", &cache, &known).await.unwrap();
        assert_eq!((first.file.as_str(), first.size), ("runc", 7));
        assert_eq!(first.sha256, hex(&Sha256::digest("program")));
        let inode = std::fs::metadata(out.join("runc")).unwrap().ino();
        assert_eq!(output().place(&out, "amd64", &cache, &known).await.unwrap(), first);
        assert_eq!(std::fs::metadata(out.join("runc")).unwrap().ino(), inode, "an unchanged file is left alone");

        // Somebody overwrote the folder's file: it is replaced by the right one.
        std::fs::remove_file(out.join("runc")).unwrap();
        std::fs::write(out.join("runc"), "other").unwrap();
        assert_eq!(output().place(&out, "amd64", &cache, &known).await.unwrap(), first);
        assert_eq!(std::fs::read_to_string(out.join("runc")).unwrap(), "program");
    }

    #[test]
    fn archives_are_deterministic_and_hold_upstreams_paths() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("ctr");
        std::fs::write(&source, "ctr").unwrap();
        let members = vec![("bin/ctr".to_owned(), source.clone()), ("./bridge".to_owned(), source.clone())];
        let (first, second) = (dir.path().join("a"), dir.path().join("b"));
        let made = write_tar_gz(&members, &first).unwrap();
        File::options().write(true).open(&source).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(write_tar_gz(&members, &second).unwrap(), made);
        let content = std::fs::read(&first).unwrap();
        assert_eq!(made, (hex(&Sha256::digest(&content)), content.len() as u64));
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(content.as_slice()));
        let names: Vec<_> = archive.entries().unwrap().map(|entry| entry.unwrap().path_bytes().into_owned()).collect();
        assert_eq!(names, [b"bin/ctr".to_vec(), b"./bridge".to_vec()]);
    }
}
