//! `libcublasLt`: its objects, the choice of an algorithm, and products, which are work of a stream like any other.

use super::give;
use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::{Answer, Failure, is_sticky};
use crate::library::{Description, Layout, Preference, Problem, Status, answer, named};
use crate::product::{Element, Matrix, Product};
use crate::settings::Settings;
use crate::spoil::{FAR, Spoil};
use crate::work::Work;
use cudarc::cublaslt::sys::{
    cublasLtEpilogue_t as Epilogue, cublasLtMatmulDescAttributes_t as Of,
    cublasLtMatmulPreferenceAttributes_t as Wish, cudaDataType_t as Type,
};
use std::ffi::c_void;

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
pub struct Proposal {
    algorithm: [u64; 8],
    workspace: usize,
    state: u32,
    waves: f32,
    reserved: [i32; 4],
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtGetVersion() -> usize {
    Settings::from_environment().library
}

entries! {
    Nothing fn cublasLtCreate(handle: *mut Handle) |session| {
        let device = session.device_of_library()?;
        let number = session.handle();
        session.library.handles.insert(number, device);
        give(handle, number as Handle)
    }

    Nothing fn cublasLtDestroy(handle: Handle) |session| {
        named(&mut session.library.handles, handle, "handle");
        session.library.handles.remove(&(handle as u64));
        Ok(())
    }

    Nothing fn cublasLtMatmulDescCreate(product: *mut Handle, sums: u32, scale: u32) |session| {
        const SUMS_IN_F32: u32 = 68;
        if (sums, scale) != (SUMS_IN_F32, Type::CUDA_R_32F as u32) {
            return answer(Status::CUBLAS_STATUS_NOT_SUPPORTED, format!("sums {sums} scaled by {scale}"));
        }
        let number = session.handle();
        session.library.products.insert(number, Description::default());
        give(product, number as Handle)
    }

    Nothing fn cublasLtMatmulDescSetAttribute(product: Handle, attribute: u32, value: *const c_void, bytes: usize) |session| {
        let product = named(&mut session.library.products, product, "description of a product");
        match attribute {
            of if of == Of::CUBLASLT_MATMUL_DESC_TRANSA as u32 => product.transposed[0] = turned(value, bytes)?,
            of if of == Of::CUBLASLT_MATMUL_DESC_TRANSB as u32 => product.transposed[1] = turned(value, bytes)?,
            of if of == Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER as u32 => product.bias = number(value, bytes)?,
            of if of == Of::CUBLASLT_MATMUL_DESC_EPILOGUE as u32 => {
                product.has_bias = match number::<u32>(value, bytes)? {
                    what if what == Epilogue::CUBLASLT_EPILOGUE_DEFAULT as u32 => false,
                    what if what == Epilogue::CUBLASLT_EPILOGUE_BIAS as u32 => true,
                    what => return answer(Status::CUBLAS_STATUS_NOT_SUPPORTED, format!("epilogue {what}")),
                };
            }
            of => return answer(Status::CUBLAS_STATUS_NOT_SUPPORTED, format!("attribute {of} of a product")),
        }
        Ok(())
    }

    Nothing fn cublasLtMatmulDescDestroy(product: Handle) |session| {
        named(&mut session.library.products, product, "description of a product");
        session.library.products.remove(&(product as u64));
        Ok(())
    }

    Nothing fn cublasLtMatrixLayoutCreate(layout: *mut Handle, element: u32, rows: u64, columns: u64, stride: i64) |session| {
        let element = match element {
            element if element == Type::CUDA_R_32F as u32 => Element::F32,
            element if element == Type::CUDA_R_16BF as u32 => Element::Bf16,
            element => return answer(Status::CUBLAS_STATUS_NOT_SUPPORTED, format!("elements of type {element}")),
        };
        let Ok(stride) = u64::try_from(stride) else {
            return answer(Status::CUBLAS_STATUS_INVALID_VALUE, format!("columns {stride} elements apart"));
        };
        let number = session.handle();
        session.library.layouts.insert(number, Layout { element, rows, columns, stride });
        give(layout, number as Handle)
    }

    Nothing fn cublasLtMatrixLayoutDestroy(layout: Handle) |session| {
        named(&mut session.library.layouts, layout, "layout");
        session.library.layouts.remove(&(layout as u64));
        Ok(())
    }

    Nothing fn cublasLtMatmulPreferenceCreate(preference: *mut Handle) |session| {
        let number = session.handle();
        session.library.preferences.insert(number, Preference::default());
        give(preference, number as Handle)
    }

    Nothing fn cublasLtMatmulPreferenceSetAttribute(preference: Handle, attribute: u32, value: *const c_void, bytes: usize) |session| {
        let preference = named(&mut session.library.preferences, preference, "preference");
        match attribute {
            wish if wish == Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as u32 => {
                preference.workspace = number(value, bytes)?;
            }
            wish if wish == Wish::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK as u32 => {
                preference.reductions = number(value, bytes)?;
            }
            wish => match wish.checked_sub(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES as u32) {
                Some(matrix @ 0..4) => preference.alignments[matrix as usize] = number(value, bytes)?,
                _ => return answer(Status::CUBLAS_STATUS_NOT_SUPPORTED, format!("preference {wish}")),
            },
        }
        Ok(())
    }

    Nothing fn cublasLtMatmulPreferenceDestroy(preference: Handle) |session| {
        named(&mut session.library.preferences, preference, "preference");
        session.library.preferences.remove(&(preference as u64));
        Ok(())
    }

    Nothing fn cublasLtMatmulAlgoGetHeuristic(
        handle: Handle,
        product: Handle,
        left: Handle,
        right: Handle,
        addend: Handle,
        output: Handle,
        preference: Handle,
        room: i32,
        proposals: *mut Proposal,
        count: *mut i32,
    ) |session| {
        named(&mut session.library.handles, handle, "handle");
        let (_, problem) = session.problem(product, [left, right, addend, output]);
        let preference = *named(&mut session.library.preferences, preference, "preference");
        if room < 1 {
            return answer(Status::CUBLAS_STATUS_INVALID_VALUE, "no room for a proposal");
        }
        give(count, 0)?;
        let Some((algorithm, workspace)) = session.library.propose(problem, preference)? else {
            return Err(Failure { code: Status::CUBLAS_STATUS_NOT_SUPPORTED as u32, text: None });
        };
        let workspace = workspace as usize;
        give(proposals, Proposal { algorithm, workspace, state: 0, waves: 1.0, reserved: [0; 4] })?;
        give(count, 1)
    }

    Nothing fn cublasLtMatmul(
        handle: Handle,
        product: Handle,
        scale: *const f32,
        left: u64,
        left_layout: Handle,
        right: u64,
        right_layout: Handle,
        kept: *const f32,
        addend: u64,
        addend_layout: Handle,
        output: u64,
        output_layout: Handle,
        algorithm: *const [u64; 8],
        workspace: u64,
        bytes: usize,
        stream: Handle,
    ) |session| {
        let device = *named(&mut session.library.handles, handle, "handle");
        let (description, problem) =
            session.problem(product, [left_layout, right_layout, addend_layout, output_layout]);
        if scale.is_null() || kept.is_null() || algorithm.is_null() {
            return answer(Status::CUBLAS_STATUS_INVALID_VALUE, "a null pointer");
        }
        if session.device_of_library()? != device {
            return answer(Status::CUBLAS_STATUS_INVALID_VALUE, "the handle is of another device");
        }
        let algorithm = session.library.algorithm(*algorithm, &problem)?;
        let addresses = [left, right, addend, output];
        algorithm.check(addresses, (workspace, bytes as u64))?;
        let turns = [problem.transposed[0], problem.transposed[1], false, false];
        let matrix = |at: usize| Matrix { address: addresses[at], layout: problem.layouts[at], transposed: turns[at] };
        let mut left = matrix(0);
        match session.spoil.take_if(|spoil| matches!(spoil, Spoil::Moved | Spoil::More)) {
            Some(Spoil::Moved) => left.address += FAR,
            Some(_) => left.layout.stride += 1,
            None => {}
        }
        let work = Work::Product(Box::new(Product {
            left,
            right: matrix(1),
            addend: matrix(2),
            output: matrix(3),
            bias: description.has_bias.then_some(description.bias),
            scale: *scale,
            kept: *kept,
            depth: problem.sizes()[2],
            parts: algorithm.parts,
            workspace,
        }));
        let submitted = session.stream(stream).and_then(|stream| session.submit(stream, work));
        submitted.or_else(|failure| session.failed(failure))
    }
}

impl Session {
    /// The device of the thread's context, as the library needs one.
    fn device_of_library(&self) -> Answer<usize> {
        match self.current() {
            Ok(device) if self.broken.is_none() => Ok(device),
            _ => answer(Status::CUBLAS_STATUS_NOT_INITIALIZED, "the thread has no context that works"),
        }
    }

    fn problem(&mut self, product: Handle, layouts: [Handle; 4]) -> (Description, Problem) {
        let library = &mut self.library;
        let description = *named(&mut library.products, product, "description of a product");
        let layouts = layouts.map(|layout| *named(&mut library.layouts, layout, "layout"));
        let Description { transposed, has_bias, .. } = description;
        (description, Problem { transposed, has_bias, layouts })
    }

    /// The library's word for what the driver says.
    fn failed(&mut self, failure: Failure) -> Answer {
        if is_sticky(failure.code) {
            self.broken.get_or_insert(failure.code);
        }
        Err(Failure { code: Status::CUBLAS_STATUS_EXECUTION_FAILED as u32, ..failure })
    }
}

/// A value of an attribute, which has these bytes and no others.
unsafe fn number<T: Copy>(value: *const c_void, bytes: usize) -> Answer<T> {
    if value.is_null() || bytes != size_of::<T>() {
        let text = format!("{bytes} bytes of an attribute of {}", size_of::<T>());
        return answer(Status::CUBLAS_STATUS_INVALID_VALUE, text);
    }
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

unsafe fn turned(value: *const c_void, bytes: usize) -> Answer<bool> {
    match unsafe { number::<i32>(value, bytes) }? {
        0 => Ok(false),
        1 => Ok(true),
        other => answer(Status::CUBLAS_STATUS_NOT_SUPPORTED, format!("operation {other} on a matrix")),
    }
}
