//! What every entry point does around its own work: it counts, locks the driver, and turns failures into codes.

use crate::counts::{self, Planted};
use crate::driver::Driver;
use crate::failure::{Answer, Error, Failure, is_sticky, log};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new()));
static CHANGED: Condvar = Condvar::new();

/// What must hold for a call to be allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// `cuInit` has been called.
    Initialised,
    /// The thread has a context, and nothing has broken it.
    Context,
}

/// The driver, locked for one call.
pub struct Session(Option<MutexGuard<'static, Driver>>);

impl Session {
    fn lock() -> Session {
        Session(Some(DRIVER.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Lets other threads go on meanwhile.
    pub fn unlocked(&mut self, work: impl FnOnce()) {
        self.0 = None;
        work();
        *self = Session::lock();
        CHANGED.notify_all();
    }

    /// Waits until another thread has come back from such work.
    pub fn wait(&mut self) {
        if let Some(guard) = self.0.take() {
            self.0 = Some(CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Deref for Session {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.0.as_ref().expect("a session holds the lock but inside `unlocked`")
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Driver {
        self.0.as_mut().expect("a session holds the lock but inside `unlocked`")
    }
}

pub fn call(entry: &'static str, need: Need, work: impl FnOnce(&mut Session) -> Answer) -> u32 {
    let planted = counts::count(entry);
    let checked = || {
        let mut session = Session::lock();
        let result = match planted {
            Some(Planted::Answer(code)) => Err(Failure { code, text: None }),
            Some(Planted::Spoil(spoil)) => {
                session.spoil = Some(spoil);
                allow(&session, need).and_then(|()| work(&mut session))
            }
            None => allow(&session, need).and_then(|()| work(&mut session)),
        };
        if let (Ok(()), Some(spoil)) = (&result, session.spoil.take()) {
            eprintln!("fake CUDA driver: {entry} cannot do so wrong: {spoil:?}");
            std::process::exit(70);
        }
        if let Err(failure) = &result
            && is_sticky(failure.code)
        {
            session.broken.get_or_insert(failure.code);
            CHANGED.notify_all();
        }
        result
    };
    match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => {
            if let Some(text) = &failure.text {
                log(entry, text);
            }
            failure.code
        }
        Err(_) => {
            log(entry, "the fake driver has panicked");
            Error::CUDA_ERROR_UNKNOWN as u32
        }
    }
}

fn allow(driver: &Driver, need: Need) -> Answer {
    if need != Need::Nothing && !driver.initialised {
        return Err(Error::CUDA_ERROR_NOT_INITIALIZED.into());
    }
    if need == Need::Context {
        if let Some(code) = driver.broken {
            return Err(Failure { code, text: None });
        }
        driver.current()?;
    }
    Ok(())
}

/// Defines entry points: what each needs, its C signature, and its work on the locked driver.
macro_rules! entries {
    ($($need:ident fn $name:ident($($argument:ident: $kind:ty),* $(,)?) |$session:ident| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> u32 {
            crate::call::call(stringify!($name), crate::call::Need::$need, |$session| unsafe { $body })
        }
    )*};
}
pub(crate) use entries;
