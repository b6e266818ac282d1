module Io = struct
  include Cohttp_lwt_unix.IO

  let fail = Lwt.fail
  let catch = Lwt.catch
  let sleep = Lwt_unix.sleep
  let spawn = Lwt.async
  let passes = function Lwt.Canceled | Sys.Break -> true | _ -> false
  let atomic act = act ()

  type socket = Lwt_unix.file_descr

  let connect host port =
    let open Lwt.Syntax in
    let* found = Lwt_unix.getaddrinfo host (string_of_int port) [ AI_SOCKTYPE SOCK_STREAM ] in
    match found with
    | [] -> Lwt.fail_with "there is no such host"
    | { ai_family; ai_addr; _ } :: _ ->
        let socket = Lwt_unix.socket ai_family SOCK_STREAM 0 in
        let close error =
          let* () = Lwt_unix.close socket in
          Lwt.fail error
        in
        Lwt.catch
          (fun () ->
            Lwt_unix.set_close_on_exec socket;
            let* () = Lwt_unix.connect socket ai_addr in
            Lwt_unix.setsockopt socket TCP_NODELAY true;
            let channel mode = Lwt_io.of_fd ~close:(fun () -> Lwt.return_unit) ~mode socket in
            Lwt.return (channel Lwt_io.input, channel Lwt_io.output, socket))
          close

  let shut socket = try Lwt_unix.shutdown socket SHUTDOWN_ALL with Unix.Unix_error _ -> ()
  let free socket = Lwt.async (fun () -> Lwt.catch (fun () -> Lwt_unix.close socket) (fun _ -> Lwt.return_unit))
  let within _ seconds act = Lwt_unix.with_timeout seconds act

  type monitor = { lock : Lwt_mutex.t; changed : unit Lwt_condition.t }

  let monitor () = { lock = Lwt_mutex.create (); changed = Lwt_condition.create () }
  let locked each act = Lwt_mutex.with_lock each.lock act
  let wait each = Lwt_condition.wait ~mutex:each.lock each.changed
  let broadcast each = Lwt_condition.broadcast each.changed ()
end

module Session = Sapwood.Session.Make (Io)
module Rpc = Sapwood.Rpc.Make (Io) (Session)
